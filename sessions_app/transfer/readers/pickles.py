"""Safe reader of pickled `EventActions` (schema v0).

`pickle.loads` imports and calls whatever the bytes name. Here a small machine interprets the opcodes that
`pickletools.genops` lists: nothing is imported, model objects become dicts, and only constructors of plain values
(`_PLAIN`) are called. Named classes must be in ADK's own allowlist (`google/adk/sessions/_restricted_pickle.py`);
a test compares the two.

A pickle of a few bytes may describe values without end, so others' pickles are read by a `PickleReader`: in a child
process, from which the values come back as JSON.
"""

from __future__ import annotations

import base64
import json
import pickletools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

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
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(blob):
            machine.play(opcode.name, argument)
        return _PlainConverter(max_nodes).plain(machine.result())
    except (UnsafePickle, MemoryError):
        raise
    except Exception as error:  # hostile bytes may cause any error
        raise UnsafePickle(f"the pickle is broken ({type(error).__name__})") from error


class _Name:
    """Global that a pickle names. It is never imported."""

    def __init__(self, module: str, name: str) -> None:
        module = _RENAMED.get(module, module)
        self.full = f"{module}.{name}"
        self.has_fields = module in MODEL_MODULES or self.full == _UUID
        self.make = _PLAIN.get(self.full)
        if not (self.has_fields or self.make or self.full in _HELPERS):
            raise UnsafePickle(f"it names {self.full[:100]}, which is no data")


class _Object:
    """Fields of an object of a model class."""

    def __init__(self, of: _Name) -> None:
        self.of = of
        self.fields: dict[Any, Any] = {}


_MARK = object()


class _Machine:
    """Interpreter of the `pickle` opcodes that data needs. Any other opcode is rejected."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def result(self) -> Any:
        if len(self._stack) != 1:
            raise UnsafePickle("the pickle is broken: it leaves no single value")
        return self._stack[0]

    def play(self, name: str, argument: Any) -> None:
        stack = self._stack
        match name:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case _ if name in _LITERALS:
                stack.append(argument)
            case _ if name in _CONSTANTS:
                stack.append(_CONSTANTS[name]())
            case "POP":
                stack.pop()
            case "POP_MARK":
                self._pop_marked()
            case "DUP":
                stack.append(stack[-1])
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._pop_many(int(name[-1]))))
            case "TUPLE":
                stack.append(tuple(self._pop_marked()))
            case "LIST":
                stack.append(self._pop_marked())
            case "FROZENSET":
                stack.append(frozenset(self._pop_marked()))
            case "DICT":
                items = self._pop_marked()
                stack.append({})
                self._set_items(items)
            case "APPEND":
                self._append(self._pop_many(1))
            case "APPENDS" | "ADDITEMS":
                self._append(self._pop_marked())
            case "SETITEM":
                self._set_items(self._pop_many(2))
            case "SETITEMS":
                self._set_items(self._pop_marked())
            case "GLOBAL":
                stack.append(_Name(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                stack.append(_Name(*map(str, self._pop_many(2))))
            case "REDUCE":
                stack.append(_call_constructor(*self._pop_many(2)))
            case "NEWOBJ":
                stack.append(_new_object(*self._pop_many(2)))
            case "NEWOBJ_EX":
                stack.append(_new_object(*self._pop_many(3)))
            case "BUILD":
                _set_fields(stack[-2], stack.pop())
            case _:
                raise UnsafePickle(f"it uses {name}, which no data needs")

    def _pop_many(self, count: int) -> list[Any]:
        if len(self._stack) < count:
            raise UnsafePickle("the pickle is broken: values are missing")
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    def _pop_marked(self) -> list[Any]:
        """Pop the items above the topmost mark, and the mark."""
        places = range(len(self._stack) - 1, -1, -1)
        place = next((place for place in places if self._stack[place] is _MARK), None)
        if place is None:
            raise UnsafePickle("the pickle is broken: a mark is missing")
        items = self._stack[place + 1 :]
        del self._stack[place:]
        return items

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict):
            raise UnsafePickle("the pickle is broken: it sets an item of no dict")
        target.update(zip(items[::2], items[1::2], strict=True))

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, list):
            target.extend(items)
        elif isinstance(target, set):
            target.update(items)
        else:
            raise UnsafePickle("the pickle is broken: it appends to no list")


def _new_object(target: Any, *arguments: Any) -> _Object:
    if not isinstance(target, _Name) or not target.has_fields:
        raise UnsafePickle("it makes an object of a class that is no model")
    return _Object(target)


def _set_fields(target: Any, fields: Any) -> None:
    """Set the fields of an object. Pydantic pickles fields as `__dict__`, other models as their own dict."""
    if isinstance(fields, tuple) and len(fields) == 2:
        fields = {**(fields[0] or {}), **(fields[1] or {})}
    if not isinstance(target, _Object) or not isinstance(fields, dict):
        raise UnsafePickle("the pickle is broken: it fills what is no object")
    extra = fields.get("__pydantic_extra__") or {}
    target.fields.update({**fields.get("__dict__", fields), **extra})


def _call_constructor(target: Any, arguments: Any) -> Any:
    """Return the result of a pickled call: an enum's value, a plain value, or an empty object."""
    if not isinstance(target, _Name) or not isinstance(arguments, tuple):
        raise UnsafePickle("the pickle is broken: it calls what is no name")
    if target.make:
        return target.make(*arguments)
    if target.full in _HELPERS:
        if arguments and isinstance(arguments[0], _Name) and arguments[0].has_fields:
            return _Object(arguments[0])
        raise UnsafePickle(f"it calls {target.full} for no model")
    if len(arguments) == 1 and isinstance(arguments[0], str | int):
        return arguments[0]
    raise UnsafePickle(f"it calls {target.full}")


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


def _path(*parts: str) -> str:
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
    "builtins.str": _limit_text(str),
    "builtins.int": _limit_text(int),
    "builtins.float": _limit_text(float),
    "builtins.bool": bool,
    "builtins.complex": complex,
    "collections.OrderedDict": _limit_collection(OrderedDict),
    "collections.defaultdict": lambda factory=None: {},
    "datetime.date": date,
    "datetime.datetime": datetime,
    "datetime.time": time,
    "datetime.timedelta": timedelta,
    "datetime.timezone": timezone,
    "decimal.Decimal": _limit_text(Decimal),
    **{
        f"{module}.{name}": _path
        for module in ("pathlib", "pathlib._local")
        for name in ("PurePosixPath", "PureWindowsPath", "PosixPath", "WindowsPath")
    },
}
"""Constructors of plain values that a pickle may call, with limited arguments."""

_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}
"""Names of modules in protocols up to 2, which are those of Python 2."""

_UUID = "uuid.UUID"
_HELPERS = frozenset({"copyreg._reconstructor", "copyreg.__newobj__", "builtins.object"})

_LITERALS = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    }
)
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
    "MARK": lambda: _MARK,
}


class _PlainConverter:
    """Converter of the machine's result into plain data, with limits: shared parts can expand without end."""

    def __init__(self, max_nodes: int) -> None:
        self._nodes = self._text = 0
        self._max_nodes = max_nodes

    def plain(self, value: Any, depth: int = 0) -> Any:
        self._nodes += 1
        self._text += len(value) if isinstance(value, str | bytes) else 0
        if self._nodes > self._max_nodes or self._text > MAX_TEXT or depth > MAX_DEPTH:
            raise UnsafePickle("it is too large or nested too deeply")
        if isinstance(value, _Object):
            return self._fields(value, depth)
        if isinstance(value, _Name):
            return value.full
        if isinstance(value, dict):
            return {self._key(key): self.plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(item, depth + 1) for item in value]
        if isinstance(value, set | frozenset):
            return sorted((self.plain(item, depth + 1) for item in value), key=repr)
        if isinstance(value, int) and value.bit_length() >= MAX_INT_BITS:
            return hex(value)
        return value

    def _fields(self, thing: _Object, depth: int) -> Any:
        if thing.of.full == _UUID:
            return str(UUID(int=thing.fields["int"]))
        return self.plain(thing.fields, depth)

    def _key(self, key: Any) -> str:
        if not isinstance(key, str | int | float | bool | None):
            raise UnsafePickle("it has a key that is neither text nor a number")
        return str(key)
