"""Functions that fail as if the store were lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from sessions_app.store.errors import StoreUnavailable

STORE_LOST = StoreUnavailable("The store is away.")


def fail_with_lost_store(times: int, work: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    """Return `work` whose first calls raise StoreUnavailable, `before` they do anything or after they are done."""
    failures = [times]

    @wraps(work)
    def fails(*args: Any, **kwargs: Any) -> Any:
        failures[0] -= 1
        if before and failures[0] >= 0:
            raise STORE_LOST
        result = work(*args, **kwargs)
        if failures[0] >= 0:
            raise STORE_LOST
        return result

    return fails
