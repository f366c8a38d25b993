"""growd on a machine: install, upgrade, checks of a Raspberry Pi, backup and restore."""
