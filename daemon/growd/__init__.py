"""growd: the daemon inside a growing chamber."""

__version__ = "0.1.0"
