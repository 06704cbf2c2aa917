"""Paths, the appendix's way to measure them, and the integral of one against another.

variation        the p-variation of a path
skorokhod        the J1 and SM1 distances of two step paths
frechet          the Frechet distance of two graphs in (time, space), which SM1 is
path_functions   how jumps are filled in: path functions and admissible pairs
path_metrics     distances in p-variation, with and without jumps filled in
warping          alignments of two paths by dynamic programming
young            Young's integral and its bound
distances        Kolmogorov, Wasserstein and energy distances of two samples
checks           what every path is checked for
"""
