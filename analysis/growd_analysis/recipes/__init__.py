"""Recipes checked and drawn for people: the services of the page and the commands."""
