"""Figures of runs: made from points and rollups, and kept in the documents of the runs."""
