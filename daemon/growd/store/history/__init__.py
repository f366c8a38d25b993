"""The history of an environment: stored points as buckets of min, mean and max, and its events."""
