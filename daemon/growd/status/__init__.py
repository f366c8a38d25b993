"""How a running daemon is: gathered on its bus (`overview`), asked for over HTTP, and shown to a person."""
