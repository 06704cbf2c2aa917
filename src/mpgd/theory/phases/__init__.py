"""What a laminar phase does at a finite step: force, decay, exits from wells, stability.

laminar       force, decay, the law of phase lengths
crossing      steps that a phase needs to carry x past a wall
phase_kernel  the position from phase to phase, a Markov kernel killed outside a well
exits         the exit rate of a well
stability     what the multiplicative term does to a minimum
lyapunov      how fast neighbouring starts of a map part
"""

from mpgd.theory.phases.crossing import crossing_time as crossing_time
from mpgd.theory.phases.exits import ExitRate as ExitRate
from mpgd.theory.phases.exits import exit_rate as exit_rate
from mpgd.theory.phases.laminar import Levels as Levels
from mpgd.theory.phases.laminar import decay_of as decay_of
from mpgd.theory.phases.laminar import force_of as force_of
from mpgd.theory.phases.laminar import levels as levels
from mpgd.theory.phases.laminar import phase_tail as phase_tail
from mpgd.theory.phases.lyapunov import lyapunov_exponent as lyapunov_exponent
from mpgd.theory.phases.stability import Stability as Stability
from mpgd.theory.phases.stability import growth_exponent as growth_exponent
from mpgd.theory.phases.stability import stability as stability
