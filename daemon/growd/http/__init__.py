"""The front door: the REST API, streams, and the way through to the database."""
