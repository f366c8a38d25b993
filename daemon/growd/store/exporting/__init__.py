"""Points out of the database: pages of a view, and rows as CSV."""
