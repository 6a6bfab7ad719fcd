"""The reader, which checks the values from each source and creates the sections from all of them.

hilum uses cattrs for the data that people write, except for settings, because these are read at
every start. ``import cattrs`` takes 53 ms of CPU time and structuring each section once 67 ms, but
this reader takes 7 ms (``tests/benchmarks/settings.py``, on a machine where ``hilum run`` takes
626 ms to its first request), so cattrs would make the start 18 % slower. Moreover, a converter
would not compare a project's file with the user's values, which is what most of this module does.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from math import inf
from types import MappingProxyType, NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import attrs

from hilum.settings.declare import Info, Member, Members, members, plain, required
from hilum.settings.errors import near
from hilum.settings.sources import Raw

# Maximum number of mistakes that are listed.
MAX_MISTAKES = 100

_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def _fits(kind: Any, value: object, info: Info) -> bool:
    """Return whether a single value has the right type and is within its limits."""
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        # Types are compared, too, because True == 1.
        return any(type(value) is type(choice) and value == choice for choice in get_args(kind))
    is_whole_number = kind is float and type(value) is int
    if type(value) is not kind and not is_whole_number:
        return False
    return info.allows(value)


def _expected(kind: Any, info: Info) -> str:
    """Describe, with an article, the values that a setting of a type expects."""
    kind = plain(kind)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    if get_origin(kind) is list:
        item = _expected(get_args(kind)[0], Info())
        if item.startswith("a "):
            return f"a list of {item[2:]}s"
        return f"a list, each {item}"
    expected = _EXPECTED.get(kind, "a table")
    limits = info.describe_limits()
    return f"{expected} of {limits}" if limits else expected


def _is_named(name: str, pattern: str) -> bool:
    """Return whether a name has the non-empty parts of a pattern such as ``provider/name``."""
    slashes = pattern.count("/")
    parts = name.split("/", slashes)
    return len(parts) == slashes + 1 and all(parts)


def _limit(value: Any) -> float:
    """Return a value for comparing limits; no value means no limit."""
    return inf if value is None else float(value)


def _written(value: Any) -> str:
    """Return a value in TOML notation, on one line, so that it can be copied."""
    if isinstance(value, str | bool | int | float):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        pairs = [f"{name} = {_written(inner)}" for name, inner in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    return str(value)


class Reader(NamedTuple):
    """A reader that converts plain data to settings, returns the valid part and reports the rest.

    Args:
        where: The name of the source in messages.
        problems: A list to which one message for each mistake is added.
        leaves: A dict to which the valid single values are added, by dotted key.
        project: Whether the source is a project's file.
        whole: Whether the data combines all sources, so that sections are created from it.
        before: For a project's file: the values that apply without the file, by dotted key. Within
            a list, which is compared as a whole, this is ``None``.
        ignored: A list to which one sentence for each ineffective value in a project's file is
            added.
        text: The text of a source that is a file, for finding the lines of keys.
    """

    where: str
    problems: list[str]
    leaves: dict[str, tuple[Any, Info]]
    project: bool = False
    whole: bool = False
    before: Mapping[str, Any] | None = MappingProxyType({})
    ignored: list[str] | None = None
    text: str = ""

    def read(self, declared: Member, value: Any, key: str = "") -> Any:
        """Return the valid part of a value; ``NOTHING`` if no part is valid.

        Args:
            declared: Type and declaration of the setting.
            value: The value in the source.
            key: The dotted key of the value.
        """
        kind: Any = declared[0]
        info = declared[1]
        if value is None and NoneType in get_args(kind):
            kind = Any
        else:
            kind = plain(kind)
        if isinstance(value, Raw):
            value = value.parse(kind)
        known = members(kind, value, info) if isinstance(value, Mapping) else None
        if known and value:
            return self._table(kind, info, value, key, known)
        # Permission is checked before the value, because the message about a key or token in a
        # project's file must not quote it.
        if self.project and (info.secret or info.project is False):
            return self._wrong(
                key, "only the user may set this, in a file of their own and not in a project"
            )
        if known is not None:
            value = self._table(kind, info, value, key, known)
        elif get_origin(kind) is list and isinstance(value, list):
            value, secret = self._list(get_args(kind)[0], info, value, key)
            info = info._replace(secret=secret)
            if value is attrs.NOTHING:
                return attrs.NOTHING
        elif not _fits(kind, value, info):
            found = "a value that is not shown" if info.secret else reprlib.repr(value)
            return self._wrong(key, f"found {found}, expected {_expected(kind, info)}")
        if self.project and info.project is not True and not self._narrows(key, value, info):
            return attrs.NOTHING
        if get_origin(kind) is Literal:
            info = info._replace(choice=True)
        self.leaves[key] = value, info
        return float(value) if kind is float else value

    def _list(self, kind: Any, info: Info, values: list[Any], key: str) -> tuple[Any, bool]:
        """Read the items in a list.

        Returns:
            The items (``NOTHING`` if an item is wrong), and whether an item is a secret.
        """
        reader = self._replace(leaves={}, ignored=None, before=None)
        items = [reader.read((kind, info), item, f"{key}[{n}]") for n, item in enumerate(values)]
        secret = info.secret or any(leaf.secret for _, leaf in reader.leaves.values())
        if attrs.NOTHING in items:
            return attrs.NOTHING, secret
        return items, secret

    def _table(
        self, kind: Any, info: Info, value: Mapping[str, Any], key: str, known: Members
    ) -> Any:
        """Read a table; return its valid members or, if ``whole``, an instance of its class."""
        valid = {}
        for name, inner in value.items():
            member = self._member(name, inner, f"{key}.{name}" if key else name, info, known)
            if member is not attrs.NOTHING:
                valid[name] = member
        if not self.whole or not attrs.has(kind):
            return valid
        missing = [name for name in required(kind) if name not in valid]
        for name in missing:
            self._wrong(f"{key}.{name}", f"missing, expected {_expected(*known[name])}")
        return attrs.NOTHING if missing else kind(**valid)

    def _member(self, name: str, value: Any, key: str, info: Info, known: Members) -> Any:
        """Read one member of a table; return ``NOTHING`` if it is unknown or wrong."""
        if info.names and not _is_named(name, info.names):
            example = f"{info.names.rpartition('/')[0]}/{name}"
            return self._wrong(key, f"the names here are written {info.names}, as in {example}")
        if name in known:
            return self.read(known[name], value, key)
        if self._is_full():
            return attrs.NOTHING
        what = "section" if key == name and isinstance(value, Mapping) else "key"
        self.problems.append(f"{self._place(key)}: unknown {what} {key}. {near(name, known)}")
        return attrs.NOTHING

    def _narrows(self, key: str, value: Any, info: Info) -> bool:
        """Return whether a project's value only narrows the user's; report any other value."""
        if self.before is None:
            return True
        own = self.before.get(key)
        if value == own:
            return True
        if info.project == "user":
            self._ignore(key, value, "only the user chooses this")
            return False
        theirs = _limit(value)
        users = _limit(own)
        lower = info.project == "lower"
        if lower and theirs < users:
            return True
        if not lower and theirs > users:
            return True
        direction = "lower" if lower else "raise"
        shown = "not set" if own is None else _written(own)
        self._ignore(
            key, value, f"a project may only {direction} it, and without the project it is {shown}"
        )
        return False

    def _ignore(self, key: str, value: Any, why: str) -> None:
        if self.ignored is not None:
            line = f"{key} = {_written(value)}"
            self.ignored.append(
                f"{self._place(key)}: {line} is ignored: {why}."
                f" To use it anyway, put `{line}` in your own settings file."
            )

    def _wrong(self, key: str, what: str) -> Any:
        if not self._is_full():
            self.problems.append(f"{self._place(key)}: {key}: {what}")
        return attrs.NOTHING

    def _is_full(self) -> bool:
        """Return whether the list of mistakes is full; add a note about this once.

        The list is limited, because finding the lines of a hundred thousand wrong keys would take
        minutes.
        """
        if len(self.problems) < MAX_MISTAKES:
            return False
        if len(self.problems) == MAX_MISTAKES:
            self.problems.append(f"{self.where}: more mistakes are not listed")
        return True

    def _place(self, key: str) -> str:
        """Return the source of a key, with the line number if the source is a file."""
        if not self.text:
            return self.where
        from hilum.settings.lines import find_line  # only after a mistake

        number = find_line(self.text, key)
        return f"{self.where}, line {number}" if number else self.where
