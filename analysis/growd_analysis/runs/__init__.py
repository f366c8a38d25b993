"""`growd run export`: a run as one file."""
