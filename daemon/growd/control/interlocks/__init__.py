"""Interlocks: they stand between commands and outputs, and nothing bypasses them."""
