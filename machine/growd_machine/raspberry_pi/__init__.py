"""The Raspberry Pi below growd: its model, the settings in its boot files, and checks of the machine."""
