"""The archive of runs: their calls of the API, and `growd run export`, a run as one file."""
