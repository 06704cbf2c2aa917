"""Data sets: where files are found and checked, and one module for each set."""
