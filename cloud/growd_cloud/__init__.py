"""The cloud of a fleet: a receiver with its databases, and the replications and reports of a device."""
