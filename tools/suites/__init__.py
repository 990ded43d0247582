"""What `make test` runs, within which time, and how its output is counted."""
