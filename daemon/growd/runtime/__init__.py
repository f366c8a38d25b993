"""What everything stands on: clocks, threads, supervision, small files."""
