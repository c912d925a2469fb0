"""Dictionary with a maximum size, for notes that nobody may ever take."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from typing_extensions import override

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """Dictionary that drops its oldest keys when it has more than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    @override
    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > self._most:
            self.popitem(last=False)
