"""Cameras: they take photos of the plants, keep them, and measure the leaves."""
