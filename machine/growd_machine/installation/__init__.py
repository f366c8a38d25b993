"""growd as a service of a machine: what is installed, from where, and in which steps. All functions block."""
