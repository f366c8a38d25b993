"""Points out of the database: series, rollups, and views page by page."""
