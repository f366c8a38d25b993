"""What the configuration builds: every part of the daemon, made and connected."""
