"""What is done to the process while memory is kept is undone, also where the work fails."""

from __future__ import annotations

import gc

import pytest

from tracecorr.store.memory import kept_memory


def test_python_looks_for_garbage_again_when_the_work_is_over() -> None:
    with kept_memory():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_had_it_look_for_none_is_not_overruled() -> None:
    gc.disable()
    try:
        with kept_memory():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_so_they_are_when_it_fails() -> None:
    with pytest.raises(ZeroDivisionError), kept_memory():
        _ = 1 // 0
    assert gc.isenabled()
