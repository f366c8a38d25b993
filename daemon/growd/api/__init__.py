"""The REST API 0.0.1."""
