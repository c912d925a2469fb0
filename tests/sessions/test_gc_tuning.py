"""The garbage collector pauses during large reads only; processes with agents collect less often."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from sessions_app.store.database.gc_tuning import (
    INITIAL_THRESHOLDS,
    THRESHOLDS,
    collect_less_often,
    pause_collector,
)
from tests.patience import PATIENCE_S


def test_collection_pauses_and_resumes():
    with pause_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collection_resumes_after_failure():
    with pytest.raises(ValueError, match="broken"), pause_collector():
        raise ValueError("broken")
    assert gc.isenabled()


def test_collection_resumes_after_the_last_thread():
    inside, states = Barrier(2), []

    def read(leaves_first: bool) -> None:
        with pause_collector():
            inside.wait(timeout=PATIENCE_S)
            if not leaves_first:
                inside.wait(timeout=PATIENCE_S)
                states.append(gc.isenabled())
        if leaves_first:
            inside.wait(timeout=PATIENCE_S)

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(read, first) for first in (True, False)]:
            future.result(timeout=PATIENCE_S)
    assert states == [False]
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with pause_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.fixture
def thresholds() -> Iterator[None]:
    """Those of Python while the test runs; those of the tests' process come back."""
    before = gc.get_threshold()
    gc.set_threshold(*INITIAL_THRESHOLDS)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("thresholds")
def test_collection_is_rarer_where_agents_run():
    collect_less_often()
    assert gc.get_threshold() == THRESHOLDS


@pytest.mark.usefixtures("thresholds")
def test_settings_of_agents_are_kept():
    gc.set_threshold(1234, 5, 6)
    collect_less_often()
    assert gc.get_threshold() == (1234, 5, 6)
