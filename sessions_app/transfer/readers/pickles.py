"""Safe reader of pickled `EventActions` (schema v0).

`pickle.loads` imports and calls whatever the bytes name. Here no name is imported: instead of model classes the
unpickler gets classes without behavior, whose objects become dicts, and instead of types of plain values constructors
with limited arguments (`_PLAIN`). Names must be in ADK's own allowlist (`google/adk/sessions/_restricted_pickle.py`);
a test compares the two.

A pickle of a few bytes may describe values without end, so others' pickles are read by a `PickleReader`: in a child
process, from which the values come back as JSON.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import pickletools
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from typing_extensions import override

from sessions_app.store.text_input import MAX_INT_BITS
from sessions_app.transfer.readers.reader_process import ReaderProcess, ReadingFailed

MAX_BYTES = 64 * 1024 * 1024
MAX_NODES = 1_000_000
MAX_DEPTH = 200
MAX_TEXT = 64 * 1024 * 1024
"""Most characters and bytes of all texts of a value."""

MAX_LITERAL = 10_000
"""Longest text that is parsed as a number."""

MODEL_MODULES = frozenset(
    {
        "fastapi.openapi.models",
        "google.adk.auth.auth_credential",
        "google.adk.auth.auth_schemes",
        "google.adk.auth.auth_tool",
        "google.adk.events.event_actions",
        "google.adk.events.ui_widget",
        "google.adk.tools.tool_confirmation",
        "google.genai.types",
    }
)
"""Modules of data models and enums. Their objects become dicts and values."""


TAG = "__devui_type"
"""Key of an object that stands for a value of another type than JSON's, on its way from the child process."""


class UnsafePickle(ReadingFailed):
    """The bytes are no pickle of plain data; the message has the reason."""


class PickleReader:
    """Reader of pickles in a child process with limits of memory and time."""

    def __init__(self) -> None:
        self._process = ReaderProcess(f"{__name__}:dump_pickle")

    def read(self, blob: bytes) -> Any:
        """Return the value of a pickle, as `read_pickle` does.

        Raises:
            ReadingFailed: it cannot be read, or not within the limits.
        """
        encoded = base64.b64encode(blob).decode()
        [value] = self._process.read(encoded, object_hook=_from_tag)
        return value

    def close(self) -> None:
        """End the child process."""
        self._process.close()


def dump_pickle(encoded: str) -> Iterator[str]:
    """Yield the value of a pickle in base64 as JSON, in which other types have a `TAG`.

    Raises:
        UnsafePickle: see `read_pickle`.
    """
    yield json.dumps(read_pickle(base64.b64decode(encoded)), default=_to_tag)


def _to_tag(value: Any) -> dict[str, list[str]]:
    name = type(value).__name__
    return {TAG: [name, _ENCODERS.get(name, str)(value)]}


def _from_tag(pairs: dict[str, Any]) -> Any:
    match pairs:
        case {"__devui_type": [str(name), str(text)]} if name in _DECODERS:
            return _DECODERS[name](text)
    return pairs


_ENCODERS: dict[str, Callable[[Any], str]] = {
    "bytes": lambda value: base64.b64encode(value).decode(),
    "date": date.isoformat,
    "datetime": datetime.isoformat,
    "time": time.isoformat,
    "timedelta": lambda value: f"{value.days} {value.seconds} {value.microseconds}",
}
_DECODERS: dict[str, Callable[[str], Any]] = {
    "bytes": base64.b64decode,
    "complex": complex,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda text: timedelta(*map(int, text.split())),
    "Decimal": Decimal,
    "timezone": str,
}
"""Codecs of the types that `_PLAIN` makes."""


def read_pickle(blob: bytes, *, max_nodes: int = MAX_NODES) -> Any:
    """Return the value of a pickle as plain data of at most `max_nodes` values. Model objects become dicts.

    Raises:
        UnsafePickle: it names anything but data, or is broken, too large or nested too deeply.
        MemoryError: it needs more memory than there is.
    """
    if len(blob) > MAX_BYTES:
        raise UnsafePickle(f"the pickle has {len(blob)} bytes, more than {MAX_BYTES}")
    try:
        _check_sizes(blob)
        return _PlainConverter(max_nodes).plain(_InertUnpickler(io.BytesIO(blob), encoding="latin-1").load())
    except (UnsafePickle, MemoryError):
        raise
    except Exception as error:  # hostile bytes may cause any error
        raise UnsafePickle(f"the pickle is broken ({type(error).__name__})") from error


def _check_sizes(blob: bytes) -> None:
    """Refuse sizes and positions beyond the pickle: the unpickler would allocate them before it reads.

    Raises:
        UnsafePickle: a position is beyond the pickle.
        ValueError: a size is, or the pickle is broken.
    """
    for opcode, argument, _ in pickletools.genops(blob):
        if opcode.name in _PUTS and int(argument or 0) > len(blob):
            raise UnsafePickle("the pickle is broken: it has fewer values than positions")


class _Model:
    """Object of a model class: only its fields. Subclasses have the names of the classes that they stand for."""

    __slots__ = ("fields",)
    fields: dict[Any, Any]

    def __new__(cls, *arguments: Any) -> Any:
        if cls is _Model:
            raise UnsafePickle("it makes an object of a class that is no model")
        if not arguments:
            model = super().__new__(cls)
            model.fields = {}
            return model
        if len(arguments) == 1 and isinstance(arguments[0], str | int):
            return arguments[0]  # the value of an enum
        raise UnsafePickle(f"it calls {cls.__name__}")

    def __setstate__(self, state: Any) -> None:
        """Set the fields. Pydantic pickles fields as `__dict__`, other models as their own dict."""
        if isinstance(state, tuple) and len(state) == 2:
            state = {**(state[0] or {}), **(state[1] or {})}
        if not isinstance(state, dict):
            raise UnsafePickle("the pickle is broken: it fills an object with no fields")
        extra = state.get("__pydantic_extra__") or {}
        self.fields.update({**state.get("__dict__", state), **extra})


class _Id(_Model):
    """A UUID."""

    __slots__ = ()


class _Constructor:
    """Constructor of plain values, which nothing in a pickle can change."""

    __slots__ = ("_make", "name")

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self.name = name
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise UnsafePickle("the pickle is broken: it fills what is no object")


class _InertUnpickler(pickle.Unpickler):
    """Unpickler that imports nothing."""

    @override
    def find_class(self, module: str, name: str) -> Any:
        module = _RENAMED.get(module, module)
        full_name = f"{module}.{name}"
        if module in MODEL_MODULES or full_name == "uuid.UUID":
            return type(full_name, (_Model if module in MODEL_MODULES else _Id,), {"__slots__": ()})
        if full_name == "builtins.object":
            return _Model
        if full_name not in _PLAIN:
            raise UnsafePickle(f"it names {full_name[:100]}, which is no data")
        return _Constructor(full_name, _PLAIN[full_name])


def _make_empty_object(model: Any, *_: Any) -> Any:
    """Return an empty object, as the functions of `copyreg` do for models."""
    if not (isinstance(model, type) and issubclass(model, _Model)):
        raise UnsafePickle("it makes an object of a class that is no model")
    return model()


def _limit_text(make: Callable[[str], Any]) -> Callable[[str], Any]:
    def make_number(text: str) -> Any:
        if not isinstance(text, str) or len(text) > MAX_LITERAL:
            raise UnsafePickle("it makes a number of no short text")
        return make(text)

    return make_number


def _limit_collection(make: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a constructor that accepts only collections: `bytes(10**10)` would exhaust memory."""

    def make_collection(items: Any = (), *encoding: Any) -> Any:
        if encoding and not isinstance(items, str):
            raise UnsafePickle("it gives an encoding to no text")
        if isinstance(items, str) and encoding:
            return items.encode("latin-1")
        if not isinstance(items, list | tuple | dict | set | frozenset | bytes | bytearray):
            raise UnsafePickle("it makes a collection of what is none")
        return make(items)

    return make_collection


def _join_path(*parts: str) -> str:
    return str(PurePosixPath(*parts))


_PLAIN: dict[str, Callable[..., Any]] = {
    "builtins.dict": _limit_collection(dict),
    "builtins.list": _limit_collection(list),
    "builtins.set": _limit_collection(set),
    "builtins.frozenset": _limit_collection(frozenset),
    "builtins.tuple": _limit_collection(tuple),
    "builtins.bytes": _limit_collection(bytes),
    "builtins.bytearray": _limit_collection(bytes),
    "_codecs.encode": _limit_collection(bytes),
    "copyreg._reconstructor": _make_empty_object,
    "copyreg.__newobj__": _make_empty_object,
    "builtins.str": _limit_text(str),
    "builtins.int": _limit_text(int),
    "builtins.float": _limit_text(float),
    "builtins.bool": bool,
    "builtins.complex": complex,
    "collections.OrderedDict": _limit_collection(dict),
    "collections.defaultdict": lambda factory=None: {},
    "datetime.date": date,
    "datetime.datetime": datetime,
    "datetime.time": time,
    "datetime.timedelta": timedelta,
    "datetime.timezone": timezone,
    "decimal.Decimal": _limit_text(Decimal),
    **{
        f"{module}.{name}": _join_path
        for module in ("pathlib", "pathlib._local")
        for name in ("PurePosixPath", "PureWindowsPath", "PosixPath", "WindowsPath")
    },
}
"""Constructors that a pickle may call, with limited arguments."""

_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
"""Opcodes with the position of a value in the memo, which is a list."""

_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}
"""Names of modules in protocols up to 2, which are those of Python 2."""


class _PlainConverter:
    """Converter of unpickled values into plain data, with limits: shared parts can expand without end."""

    def __init__(self, max_nodes: int) -> None:
        self._nodes = self._text = 0
        self._max_nodes = max_nodes

    def plain(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, bytearray):
            value = bytes(value)
        self._nodes += 1
        self._text += len(value) if isinstance(value, str | bytes) else 0
        if self._nodes > self._max_nodes or self._text > MAX_TEXT or depth > MAX_DEPTH:
            raise UnsafePickle("it is too large or nested too deeply")
        if isinstance(value, _Id):
            return str(UUID(int=value.fields["int"]))
        if isinstance(value, _Model):
            return self.plain(value.fields, depth)
        if isinstance(value, type | _Constructor):
            return value.__name__ if isinstance(value, type) else value.name
        if isinstance(value, dict):
            return {self._plain_key(key): self.plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(item, depth + 1) for item in value]
        if isinstance(value, set | frozenset):
            return sorted((self.plain(item, depth + 1) for item in value), key=repr)
        if isinstance(value, int) and value.bit_length() >= MAX_INT_BITS:
            return hex(value)
        return value

    def _plain_key(self, key: Any) -> str:
        if not isinstance(key, str | int | float | bool | None):
            raise UnsafePickle("it has a key that is neither text nor a number")
        return str(key)
