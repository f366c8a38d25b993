"""The way through to the database."""
