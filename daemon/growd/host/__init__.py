"""The machine: systemd, logs, the data folder, facts about the hardware."""
