"""Hold a workload back while a more important one is at work: who is held (`controller`), and how (`steering`)."""

from tracecorr.control.controller import BUSY, ENDED, HOLD, IDLE, RELEASE, TICK, Action, Controller, Event

__all__ = ["BUSY", "ENDED", "HOLD", "IDLE", "RELEASE", "TICK", "Action", "Controller", "Event"]
