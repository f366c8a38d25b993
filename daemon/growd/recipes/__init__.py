"""Recipes: set points over time."""
