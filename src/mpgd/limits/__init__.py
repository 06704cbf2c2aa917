"""The small-step limit of MPGD: its equation, and how far two paths are apart.

``variation``   the p-variation of a path
``skorokhod``   the J1 and SM1 distances between two step paths
``frechet``     the Frechet distance of two graphs in (time, space), which SM1 is
"""
