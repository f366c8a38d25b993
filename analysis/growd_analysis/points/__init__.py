"""Points out of the database into files: CSV, Parquet, wide tables; an export resumes."""
