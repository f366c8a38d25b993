"""A recipe tried in a simulated chamber, in jumping time: without a daemon, ports or a database."""
