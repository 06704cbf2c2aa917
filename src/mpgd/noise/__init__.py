"""Noises: chaotic, Gaussian and stable, the engines that advance them, and stable laws."""

from mpgd.noise.chaotic import ChaoticNoise as ChaoticNoise
from mpgd.noise.memoryless import GaussianNoise as GaussianNoise
from mpgd.noise.memoryless import StableNoise as StableNoise
from mpgd.noise.protocol import Noise as Noise
from mpgd.noise.stable_law import StableLaw as StableLaw
from mpgd.noise.state import NoiseState as NoiseState
from mpgd.noise.state import position as position
from mpgd.noise.state import sign as sign
