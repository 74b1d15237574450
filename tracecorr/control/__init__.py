"""Hold a workload back while a more important one is at work: who is held (`controller`), and how."""

from tracecorr.control.controller import (
    BUSY,
    ENDED,
    HOLD,
    IDLE,
    RELEASE,
    TICK,
    Action,
    Actuator,
    Controller,
    Event,
    HoldError,
)

__all__ = [
    "BUSY",
    "ENDED",
    "HOLD",
    "IDLE",
    "RELEASE",
    "TICK",
    "Action",
    "Actuator",
    "Controller",
    "Event",
    "HoldError",
]
