"""A stand-in for the package RPi whose pins outlive the process, as those of Raspberry Pi OS do."""
