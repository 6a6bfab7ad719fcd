"""Where settings stand: files, environment, command line, each as plain data before it is
checked.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from hilum_settings.declare import Info, members, plain
from hilum_settings.errors import near

FILE = "settings.toml"


class Raw(str):
    """A value as text, from the environment or ``--set``: a TOML value where it is one, else the
    string itself.
    """

    def parse(self, kind: Any) -> object:
        """Return the value for a setting of this type.

        Where that is text, all but a quoted string stays as it is.
        """
        import tomllib  # 7 ms, only when there is something to read

        textual = kind is str or (
            get_origin(kind) is Literal and isinstance(get_args(kind)[0], str)
        )
        with suppress(tomllib.TOMLDecodeError, RecursionError):
            document = tomllib.loads(f"value = {self}")
            if len(document) == 1 and (isinstance(document["value"], str) or not textual):
                return document["value"]
        return str(self)


class Source(NamedTuple):
    """What one source says.

    Args:
        name: A file, a variable, or ``command line``.
        data: Its settings.
        kind: Goes before the name in problems.
        project: Whether it is a project's file.
    """

    name: str
    data: Mapping[str, Any]
    kind: str = ""
    project: bool = False


def split_key(key: str) -> list[str]:
    """Return the parts of a dotted key.

    A part with a dot in it is quoted, as in TOML: ``roles."openai/gpt-4.1"``.

    Raises:
        ValueError: The quotes are wrong.
    """
    if '"' not in key and "'" not in key:
        return [part.strip() for part in key.split(".")]
    import tomllib  # only where there is a quote

    try:
        table: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError as error:
        raise ValueError(str(error)) from None
    parts = []
    while isinstance(table, dict):
        if len(table) != 1:
            raise ValueError("it is more than one key")
        ((part, table),) = table.items()
        parts.append(part)
    return parts


def split_pair(text: str) -> tuple[str, str]:
    """Split ``key=value`` at the first ``=`` that is not in quotes.

    The key is empty where there is none.
    """
    quote = ""
    for index, char in enumerate(text):
        if char == "=" and not quote:
            return text[:index].strip(), text[index + 1 :].strip()
        if char in "\"'" and quote in ("", char):
            quote = "" if quote else char
    return "", text


def single(name: str, key: str, value: object, kind: str = "") -> Source:
    """Return the source that says one thing, by dotted key."""
    for part in reversed(split_key(key)):
        value = {part: value}
    return Source(name, value, kind)  # type: ignore[arg-type]


class Unreadable(ValueError):
    """A file is no settings file; says why."""


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return text and data of a TOML file; nothing of one that does not exist.

    A byte order mark is no part of the data.

    Raises:
        Unreadable: It cannot be read, or is not TOML.
    """
    if not os.path.lexists(path):
        return "", {}
    import tomllib

    try:
        if not path.is_file():  # reading a pipe or a device might never end
            raise OSError(0, "not a regular file")
        text = path.read_bytes().decode()
        return text, tomllib.loads(text.removeprefix("\ufeff"))
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Unreadable(f"line {line} is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unreadable(f"not valid TOML: {error}") from None


def file(path: Path, project: bool, problems: list[str]) -> Iterator[Source]:
    """Yield what a file says; why it cannot be read goes to the problems."""
    try:
        yield Source(str(path), read(path)[1], project=project)
    except Unreadable as error:
        problems.append(f"{path}: {error}")


def environment(
    prefix: str,
    root: Any,
    environ: Mapping[str, str],
    known: Collection[str] | None,
    problems: list[str],
) -> Iterator[Source]:
    """Yield what each variable says.

    Empty ones count as not set; ``CONFIG`` and ``DATA`` name folders.

    Args:
        prefix: What the variables begin with.
        root: All settings there are.
        environ: The environment.
        known: Sections whose variables pass unchecked; ``None`` lets every other variable pass.
        problems: Takes what is wrong.
    """
    folders = (f"{prefix}CONFIG", f"{prefix}DATA")
    given = {n: v for n, v in environ.items() if n.startswith(prefix) and n not in folders and v}
    variables = {prefix + _variable(key): key for key in _keys(root)} if given else {}
    for name, text in sorted(given.items()):
        if name in variables:
            yield single(name, variables[name], Raw(text), "environment ")
        elif known is not None and not any(
            name.startswith(f"{prefix}{_variable(section)}_") for section in known
        ):
            problems.append(f"environment {name}: unknown variable. {near(name, variables)}")


def _variable(key: str) -> str:
    return key.replace(".", "_").replace("-", "_").upper()


def _keys(kind: Any, key: str = "") -> list[str]:
    """Return the dotted keys of all settings there are."""
    inside = members(plain(kind), (), Info()) or {}
    return [
        k for name, (inner, _) in inside.items() for k in _keys(inner, f"{key}.{name}".strip("."))
    ] or [key]
