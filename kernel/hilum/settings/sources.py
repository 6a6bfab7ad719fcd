"""The sources of settings: files, environment and command line, as plain data."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from hilum.settings.declare import Info, members, plain
from hilum.settings.errors import explain_invalid_toml, near

FILE = "settings.toml"
# Variables, without the application's prefix, that look like settings but are not. These variables
# name folders, change the output after a crash, set the token of `hilum mcp serve`, and mark
# commands in the background. Reporting them as mistakes would make every command fail for users who
# set them.
OTHER_VARIABLES = frozenset({"CONFIG", "DATA", "CACHE", "TRACEBACK", "MCP_TOKEN", "BACKGROUND"})


class Raw(str):
    """The text of a value, from the environment or ``--set``.

    If the text is a TOML value, it is parsed; otherwise, the text itself is the value.
    """

    def parse(self, kind: Any) -> object:
        """Return the value for a setting of the given type.

        For a text setting, only a quoted string is parsed, so that ``HILUM_MODEL=1.5`` stays text.
        """
        import tomllib  # takes 7 ms, needed only if there is a value to parse

        is_text = kind is str
        if get_origin(kind) is Literal:
            is_text = isinstance(get_args(kind)[0], str)
        with suppress(ValueError, RecursionError):  # int() raises ValueError for very long numbers
            document = tomllib.loads(f"value = {self}")
            # The value must be the only key, because a value with a newline could set further keys.
            if len(document) == 1 and (isinstance(document["value"], str) or not is_text):
                return document["value"]
        return str(self)


class Source(NamedTuple):
    """The settings of one source.

    Args:
        name: The path of a file, the name of a variable, or ``command line``.
        data: The settings in the source.
        kind: A prefix for the source's name in messages.
        project: Whether the source is a project's file.
        text: The text, if the source is a file, for finding the lines of mistakes.
    """

    name: str
    data: Mapping[str, Any]
    kind: str = ""
    project: bool = False
    text: str = ""


def split_key(key: str) -> list[str]:
    """Return the parts of a dotted key.

    A part that contains a dot is quoted, as in TOML: ``roles."openai/gpt-4.1"``.

    Raises:
        ValueError: The quotes are wrong.
    """
    if '"' not in key and "'" not in key:
        return [part.strip() for part in key.split(".")]
    import tomllib  # needed only if there is a quote

    try:
        table: Any = tomllib.loads(f"{key} = 0")
    except ValueError as error:
        raise ValueError(explain_invalid_toml(error)) from None
    parts = []
    while isinstance(table, dict):
        if len(table) != 1:
            raise ValueError("it is more than one key")
        ((part, table),) = table.items()
        parts.append(part)
    return parts


def split_pair(text: str) -> tuple[str, str]:
    """Split ``key=value`` at the first ``=`` outside quotes; without ``=``, the key is empty."""
    quote = ""
    for index, char in enumerate(text):
        if char == "=" and not quote:
            return text[:index].strip(), text[index + 1 :].strip()
        if char in "\"'" and quote in ("", char):
            quote = "" if quote else char
    return "", text


def single(name: str, key: str, value: object, kind: str = "") -> Source:
    """Return a source that sets one value, whose dotted key is given."""
    for part in reversed(split_key(key)):
        value = {part: value}
    return Source(name, value, kind)  # type: ignore[arg-type]


class Unreadable(ValueError):
    """A file cannot be read as settings; the message states the reason."""


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text and the data of a TOML file, both empty if the file does not exist.

    A byte order mark is not part of the data.

    Raises:
        Unreadable: The file cannot be read or is not TOML.
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
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not valid TOML: {explain_invalid_toml(error)}") from None


def file(path: Path, project: bool, problems: list[str]) -> Iterator[Source]:
    """Yield the settings in a file; if the file cannot be read, add a problem instead."""
    try:
        text, data = read(path)
        yield Source(str(path), data, project=project, text=text)
    except Unreadable as error:
        problems.append(f"{path}: {error}")


def environment(
    prefix: str,
    root: Any,
    environ: Mapping[str, str],
    known: Collection[str] | None,
    problems: list[str],
) -> Iterator[Source]:
    """Yield one source for each environment variable that sets something.

    Empty variables count as not set. ``OTHER_VARIABLES`` are not settings and are skipped, and so
    are the variables of Kubernetes for a service whose name begins with ``hilum``.

    Args:
        prefix: The prefix of the variables.
        root: All settings.
        environ: The environment.
        known: Sections whose variables are not checked; ``None`` leaves all other variables
            unchecked.
        problems: A list to which one message for each unknown variable is added.
    """
    given = {}
    for name, text in environ.items():
        if text and name.startswith(prefix) and name.removeprefix(prefix) not in OTHER_VARIABLES:
            given[name] = text
    if not given:
        return
    variables = {prefix + _variable(key): key for key in _keys(root)}
    unchecked = tuple(f"{prefix}{_variable(section)}_" for section in known or ())
    of_services = _service_prefixes(given)
    for name, text in sorted(given.items()):
        if name.startswith(of_services) and (name not in variables or "://" in text):
            continue
        if name in variables:
            yield single(name, variables[name], Raw(text), "environment ")
        elif known is not None and not name.startswith(unchecked):
            problems.append(f"environment {name}: unknown variable. {near(name, variables)}")


def _service_prefixes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes of the variables that Kubernetes sets in pods for its services.

    A service ``hilum-page`` has ``HILUM_PAGE_SERVICE_HOST``, ``HILUM_PAGE_SERVICE_PORT…``, and
    ``HILUM_PAGE_PORT…``, whose values are addresses such as ``tcp://10.0.0.1:80``.
    """
    end = "_SERVICE_HOST"
    services = [name.removesuffix(end) for name in names if name.endswith(end)]
    return tuple(f"{service}{part}" for service in services for part in ("_SERVICE_", "_PORT"))


def _variable(key: str) -> str:
    return key.replace(".", "_").replace("-", "_").upper()


def _keys(kind: Any, key: str = "") -> list[str]:
    """Return the dotted keys of all settings."""
    inside = members(plain(kind), (), Info())
    if not inside:
        return [key]
    found: list[str] = []
    for name, (inner, _) in inside.items():
        found += _keys(inner, f"{key}.{name}".strip("."))
    return found
