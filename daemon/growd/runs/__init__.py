"""Runs of recipes as things with an id: the archive of their records, and what is made of it."""
