"""What is done to the process while memory is kept is undone, also where the work fails."""

from __future__ import annotations

import gc

import pytest

from tracecorr.store.memory import kept_memory


def test_modules_are_looked_through_for_garbage_again_when_the_work_is_over() -> None:
    with kept_memory():
        assert gc.get_freeze_count() > 1000
    assert gc.get_freeze_count() == 0


def test_so_they_are_when_it_fails() -> None:
    with pytest.raises(ZeroDivisionError), kept_memory():
        _ = 1 // 0
    assert gc.get_freeze_count() == 0
