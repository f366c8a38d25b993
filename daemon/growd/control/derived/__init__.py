"""Variables that growd calculates from measured ones."""
