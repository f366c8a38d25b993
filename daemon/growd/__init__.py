"""growd: the daemon inside a growing chamber."""

__version__ = "1.0.0"
