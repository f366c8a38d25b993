"""What wires the simulator: its clock and hardware for the daemon, and recipes tried without one."""
