"""Commands: what a person types."""
