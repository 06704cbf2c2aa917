"""Noises, chaotic, of other phases, Gaussian and stable, and the engines that advance them."""

from mpgd.noise.chaotic import ChaoticNoise as ChaoticNoise
from mpgd.noise.coloured import ColouredNoise as ColouredNoise
from mpgd.noise.memoryless import GaussianNoise as GaussianNoise
from mpgd.noise.memoryless import StableNoise as StableNoise
from mpgd.noise.noise_state import NoiseState as NoiseState
from mpgd.noise.noise_state import position as position
from mpgd.noise.noise_state import sign as sign
from mpgd.noise.phase_noise import PhaseNoise as PhaseNoise
from mpgd.noise.phase_noise import TelegraphNoise as TelegraphNoise
from mpgd.noise.protocol import Noise as Noise
