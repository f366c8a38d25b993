"""The cloud side of a fleet: a receiver that devices replicate into, and its databases in a CouchDB."""
