"""The one recursive reader that checks every source, and makes the sections of what they say
together.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from math import inf
from types import MappingProxyType, NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import attrs

from hilum_settings.declare import Info, Member, Members, members, plain, required
from hilum_settings.errors import near
from hilum_settings.sources import Raw

_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def _fits(kind: Any, value: object, info: Info) -> bool:
    if get_origin(kind) is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(kind))
    same = type(value) is kind or (kind is float and type(value) is int)
    return kind is Any or (same and (info.minimum is None or value >= info.minimum))  # type: ignore[operator]


def _expected(kind: Any, info: Info) -> str:
    kind = plain(kind)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    if get_origin(kind) is list:
        each = _expected(get_args(kind)[0], Info())
        if each.startswith("a "):
            return f"a list of {each[2:]}s"
        return f"a list, each {each}"
    return _EXPECTED.get(kind, "a table") + (
        "" if info.minimum is None else f" of at least {info.minimum:g}"
    )


def _is_named(name: str, pattern: str) -> bool:
    """Return whether a name has as many parts as a pattern such as ``provider/name``, none of them
    empty.
    """
    parts = name.split("/", pattern.count("/"))
    return len(parts) == pattern.count("/") + 1 and all(parts)


def _limit(value: Any) -> float:
    """Return a value for comparing limits; no value is no limit."""
    return inf if value is None else float(value)


def _written(value: Any) -> str:
    """Return a value as TOML writes it, near enough to be copied."""
    if isinstance(value, str | bool | int | float):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    return str(value)


class Reader(NamedTuple):
    """Reads plain data as settings: gives what is right in it, and says what is wrong.

    Args:
        where: The source, to name in problems.
        problems: Takes what is wrong, one line for each place.
        leaves: Takes the right single values by dotted key.
        project: Whether it is a project's file.
        before: Of a project's file: what holds without it, by dotted key. ``None`` within a list,
            which counts as a whole.
        ignored: Takes what a project's file says and may not, one sentence for each.
        whole: Whether this is what all sources say together, ready to make the classes of.
    """

    where: str
    problems: list[str]
    leaves: dict[str, tuple[Any, Info]]
    project: bool = False
    whole: bool = False
    before: Mapping[str, Any] | None = MappingProxyType({})
    ignored: list[str] | None = None

    def read(self, declared: Member, value: Any, key: str = "") -> Any:
        """Return what is right in a value; ``NOTHING`` if there is nothing."""
        kind, info = declared
        kind = Any if value is None and NoneType in get_args(kind) else plain(kind)
        if isinstance(value, Raw):
            value = value.parse(kind)
        known = members(kind, value, info) if isinstance(value, Mapping) else None
        if known and value:
            return self._table(declared, value, key, known)
        if self.project and (info.secret or info.project is False):
            return self._wrong(
                key, "only the user may set this, in a file of their own and not in a project"
            )
        if known is not None:
            value = self._table(declared, value, key, known)
        elif get_origin(kind) is list and isinstance(value, list):
            within = self._replace(leaves={}, ignored=None, before=None)
            value = [
                within.read((get_args(kind)[0], info), each, f"{key}[{n}]")
                for n, each in enumerate(value)
            ]
            if any(each is attrs.NOTHING for each in value):
                return attrs.NOTHING
            info = info._replace(
                secret=info.secret or any(each.secret for _, each in within.leaves.values())
            )
        elif not _fits(kind, value, info):
            found = "a value that is not shown" if info.secret else reprlib.repr(value)
            return self._wrong(key, f"found {found}, expected {_expected(kind, info)}")
        if self.project and info.project is not True and not self._narrows(key, value, info):
            return attrs.NOTHING
        self.leaves[key] = value, info
        return float(value) if kind is float else value

    def _table(self, declared: Member, value: Mapping[str, Any], key: str, known: Members) -> Any:
        kind = plain(declared[0])
        info = declared[1]
        right = {}
        for name, inner in value.items():
            at = f"{key}.{name}" if key else name
            if info.names and not _is_named(name, info.names):
                self._wrong(
                    at,
                    f"the names here are written {info.names}, as in"
                    f" {info.names.rpartition('/')[0]}/{name}",
                )
                continue
            if name not in known:
                what = "section" if at == name and isinstance(inner, Mapping) else "key"
                self.problems.append(f"{self.where}: unknown {what} {at}. {near(name, known)}")
            elif (made := self.read(known[name], inner, at)) is not attrs.NOTHING:
                right[name] = made
        if not self.whole or not attrs.has(kind):
            return right
        missing = [name for name in required(kind) if name not in right]
        for name in missing:
            self._wrong(f"{key}.{name}", f"missing, expected {_expected(*known[name])}")
        return attrs.NOTHING if missing else kind(**right)

    def _narrows(self, key: str, value: Any, info: Info) -> bool:
        """Return whether a project's value only narrows the user's; note it where not."""
        if self.before is None:
            return True
        own = self.before.get(key)
        if value == own:
            return True
        if info.project == "user":
            limit = "only the user chooses this"
        else:
            lower = info.project == "lower"
            one = _limit(value)
            other = _limit(own)
            if one < other if lower else one > other:
                return True
            shown = "not set" if own is None else _written(own)
            limit = (
                f"a project may only {'lower' if lower else 'raise'} it, and without the project it"
                f" is {shown}"
            )
        if self.ignored is not None:
            take = (
                f"To use it all the same, put `{key} = {_written(value)}` into your own settings"
                " file"
            )
            self.ignored.append(
                f"{self.where}: {key} = {_written(value)} is ignored: {limit}. {take}."
            )
        return False

    def _wrong(self, key: str, what: str) -> Any:
        self.problems.append(f"{self.where}: {key}: {what}")
        return attrs.NOTHING
