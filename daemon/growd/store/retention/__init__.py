"""Retention: deletes points that are rolled up, and keeps the database within its room on the disk."""
