"""The small-step limit of MPGD: its equation, and how far two paths or two laws are apart.

``fast_slow``   the recursion: MPGD and every other fast-slow system
``marcus``      the equation it tends to, driven by stable processes
``flows``       couplings: constant, diagonal, linear, any field; their Marcus flows
``drivers``     what may drive a recursion, and the law its sums tend to
``levy``        stable processes by their triplet and exponent
``symbol``      the symbol of the equation, and its index
``distances``   Kolmogorov, Wasserstein and energy distances of samples, with intervals
``variation``   the p-variation of a path
``skorokhod``   the J1 and SM1 distances between two step paths
``frechet``     the Frechet distance of two graphs in (time, space), which SM1 is

Neither numba, scipy nor matplotlib is imported before it is needed.
"""

from mpgd.limits._solution import Solution as Solution
from mpgd.limits.distances import Distance as Distance
from mpgd.limits.distances import distances_in_law as distances_in_law
from mpgd.limits.drivers import DrivingNoise as DrivingNoise
from mpgd.limits.drivers import ExpandingNoise as ExpandingNoise
from mpgd.limits.drivers import limit_law as limit_law
from mpgd.limits.fast_slow import FastSlow as FastSlow
from mpgd.limits.flows import Constant as Constant
from mpgd.limits.flows import Coupling as Coupling
from mpgd.limits.flows import Diagonal as Diagonal
from mpgd.limits.flows import Field as Field
from mpgd.limits.flows import Linear as Linear
from mpgd.limits.levy import LevyTriplet as LevyTriplet
from mpgd.limits.levy import levy_exponent as levy_exponent
from mpgd.limits.levy import levy_triplet as levy_triplet
from mpgd.limits.marcus import MarcusSDE as MarcusSDE
from mpgd.limits.marcus import coarsen as coarsen
from mpgd.limits.skorokhod import skorokhod_distance as skorokhod_distance
from mpgd.limits.symbol import symbol as symbol
from mpgd.limits.symbol import symbol_index as symbol_index
from mpgd.limits.variation import p_variation as p_variation
