"""Points out of the database: pages of a view, rows as CSV or Parquet, files that resume."""
