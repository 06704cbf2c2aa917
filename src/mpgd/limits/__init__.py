"""The small-step limit of MPGD: recursion, equation, and distances of paths and laws.

    fast_slow      the recursion: MPGD and every other fast-slow system
    marcus         the equation it tends to, driven by stable processes
    couplings      constant, diagonal, linear, any field; and their Marcus flows
    equations      forward and Marcus solutions along one given path
    coefficients   coefficients that depend on m, and their distance in C^gamma
    drivers        the noises that may drive a recursion, and the laws of their limits
    neutral_maps   any map with a neutral fixed point, and any observable, as a driver
    same_orbit     a recursion and its equation on the same orbit
    levy, symbol   stable processes by triplet and exponent; the symbol of the equation
    paths/         p-variation, Skorokhod distances, path functions, Young integrals

Neither scipy nor matplotlib is imported before it is needed.
"""

from mpgd.limits.coefficients import holder_distance as holder_distance
from mpgd.limits.couplings import Along as Along
from mpgd.limits.couplings import Constant as Constant
from mpgd.limits.couplings import Coupling as Coupling
from mpgd.limits.couplings import Diagonal as Diagonal
from mpgd.limits.couplings import Field as Field
from mpgd.limits.couplings import Linear as Linear
from mpgd.limits.drivers import DrivingNoise as DrivingNoise
from mpgd.limits.drivers import ExpandingNoise as ExpandingNoise
from mpgd.limits.drivers import limit_law as limit_law
from mpgd.limits.equations import forward_path as forward_path
from mpgd.limits.equations import marcus_path as marcus_path
from mpgd.limits.fast_slow import FastSlow as FastSlow
from mpgd.limits.levy import LevyTriplet as LevyTriplet
from mpgd.limits.levy import levy_exponent as levy_exponent
from mpgd.limits.levy import levy_triplet as levy_triplet
from mpgd.limits.marcus import MarcusSDE as MarcusSDE
from mpgd.limits.marcus import coarsen as coarsen
from mpgd.limits.neutral_maps import NeutralMap as NeutralMap
from mpgd.limits.neutral_maps import OrbitNoise as OrbitNoise
from mpgd.limits.paths.distances import Distance as Distance
from mpgd.limits.paths.distances import distances_in_law as distances_in_law
from mpgd.limits.paths.path_functions import FlowPath as FlowPath
from mpgd.limits.paths.path_functions import PathFunction as PathFunction
from mpgd.limits.paths.path_functions import PathPair as PathPair
from mpgd.limits.paths.path_functions import linear_path as linear_path
from mpgd.limits.paths.path_metrics import PathDistance as PathDistance
from mpgd.limits.paths.path_metrics import alpha_infinity as alpha_infinity
from mpgd.limits.paths.path_metrics import alpha_p_variation as alpha_p_variation
from mpgd.limits.paths.path_metrics import sigma_p_variation as sigma_p_variation
from mpgd.limits.paths.skorokhod import skorokhod_distance as skorokhod_distance
from mpgd.limits.paths.variation import p_variation as p_variation
from mpgd.limits.paths.young import Integral as Integral
from mpgd.limits.paths.young import young_constant as young_constant
from mpgd.limits.paths.young import young_integral as young_integral
from mpgd.limits.paths.young import young_integral_of as young_integral_of
from mpgd.limits.paths.young import young_loeve_bound as young_loeve_bound
from mpgd.limits.same_orbit import CoupledPaths as CoupledPaths
from mpgd.limits.same_orbit import coupled_paths as coupled_paths
from mpgd.limits.solution import Solution as Solution
from mpgd.limits.symbol import symbol as symbol
from mpgd.limits.symbol import symbol_index as symbol_index
