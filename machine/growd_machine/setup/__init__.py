"""Devices that clients set up while growd runs: found on the buses, tried, written into the configuration."""
