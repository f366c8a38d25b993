"""Entries of growers' journals: text, measurements and photos, until the database has them."""
