"""Reports of runs as pages that print well, and comparisons of runs."""
