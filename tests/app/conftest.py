"""Fixtures of the page's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from synthetic import SyntheticCapture, make_capture

from tracecorr.app import index


@pytest.fixture(scope="session")
def synthetic_capture() -> SyntheticCapture:
    return make_capture()


@pytest.fixture(scope="session")
def synthetic_index(synthetic_capture: SyntheticCapture) -> index.CaptureIndex:
    return index.build(synthetic_capture)
