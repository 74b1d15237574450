"""A recorded capture that all tests of exports share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tracecorr.store import Capture


@pytest.fixture(scope="session")
def capture(recorded: Callable[..., Capture]) -> Capture:
    """Return a recorded run of several threads with graph launches; no test changes it."""
    return recorded("captures/mt-threads")
