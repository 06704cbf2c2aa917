"""Timings, as ratios measured in one run: ``python -m benchmarks [--write FILE] [--quick]``."""
