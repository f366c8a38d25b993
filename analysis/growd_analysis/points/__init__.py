"""Points out of the database, for clients as CSV, and into files: CSV, Parquet, wide tables."""
