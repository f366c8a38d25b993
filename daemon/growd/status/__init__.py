"""The state of a running daemon: one `Status`, gathered on demand, and what is derived from it."""
