"""The ways to tell operators; each is imported only where it is configured."""
