"""SYNTHETIC pairs of a HIP log and a kernel trace, with the full truth of what happened.

Nothing here was measured: no GPU, no runtime and no kernel made these files. Their forms are those of
HIP 5.7 to 7.2 and of the ftrace text of Linux 6.x; their times follow from a small model of threads, queues
and clocks, so that what tracecorr finds can be compared with what is true.
"""

from simulator.clocks import ClockModel
from simulator.run import Simulation, simulate
from simulator.scene import Scene

__all__ = ["ClockModel", "Scene", "Simulation", "simulate"]
