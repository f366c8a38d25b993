"""Rollups: what is kept of old points, as documents with buckets of five minutes, hours and days."""
