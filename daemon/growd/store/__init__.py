"""Data points on their way into the database."""
