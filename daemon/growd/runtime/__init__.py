"""The base of all other packages: clocks, threads, supervision, liveness, small files."""
