"""The bus: topics, parameters, services and nodes. No I/O, and no knowledge of HTTP or hardware."""
