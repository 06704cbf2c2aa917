"""Noises, chaotic, Gaussian and stable, and the engines that advance them."""

from mpgd.noise.chaotic import ChaoticNoise as ChaoticNoise
from mpgd.noise.memoryless import GaussianNoise as GaussianNoise
from mpgd.noise.memoryless import StableNoise as StableNoise
from mpgd.noise.protocol import Noise as Noise
from mpgd.noise.state import NoiseState as NoiseState
from mpgd.noise.state import position as position
from mpgd.noise.state import sign as sign
