"""The commands that know topics, parameters, services and nodes of a running daemon."""
