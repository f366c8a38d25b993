"""The HTTP server: connections, limits, TLS."""
