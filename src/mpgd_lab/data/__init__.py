"""Data sets: where files are found and checked, the small ones, and CIFAR-10."""
