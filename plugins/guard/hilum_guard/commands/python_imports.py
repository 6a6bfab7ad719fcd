"""Find what the code of a Python file imports, without parsing all of it.

The tests of a large project load thousands of files, so that the code is searched for the word
``import`` before a regular expression examines the statement around it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_IMPORT = re.compile(
    r"(?:^|[;:\n])[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n;]+)"
    r"|import[ \t]+([\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[ \t]*[\w.]+(?:[ \t]+as[ \t]+\w+)?)*))"
)
_NAME = re.compile(r"(\w+)(?:\s+as\s+\w+)?\s*(?:,|$)")
_NO_NAME = re.compile(r"#.*|[()]")
# Signs of code that loads modules by name, besides those that contain "import".
_DYNAMIC = ("runpy", "pytest_plugins")
_RUNS_FILES = ("run_path", "FileLoader", "file_location", "load_source")
# Signs of code that changes where modules are searched, in text that contains ".path".
_EXTENDS_PATH = ("sys.path", "sys .path", ".path.insert", ".path.append", ".path.extend")
_TEXT = re.compile(r"'([\w./-]{1,200})'|\"([\w./-]{1,200})\"")


class Imports(NamedTuple):
    """What a file imports.

    Attributes:
        modules: The number of leading dots, the module, and the names that are imported from it.
        texts: Literal text that may name a module, or a file, that code loads.
        extends: Whether the code changes where modules are searched.
        runs_files: Whether the code loads files of any name.
    """

    modules: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
    texts: tuple[str, ...] = ()
    extends: bool = False
    runs_files: bool = False


def find_imports(text: str) -> Imports:
    """Return what code imports, as far as its text shows."""
    modules: dict[tuple[int, str, tuple[str, ...]], None] = {}
    is_dynamic = any(each in text for each in _DYNAMIC) or _executes(text)
    extends = _extends_path(text)
    end = 0
    at = text.find("import")
    while at >= 0:
        if (
            text.startswith("importlib", at)
            or text.startswith("import imp", at)
            or text.startswith("__import__", at - 2)
        ):
            is_dynamic = True
        elif text.startswith("import path", at):
            extends = True
        if at >= end:
            statement = _match_statement(text, at, end)
            if statement is not None:
                end = statement.end()
                modules.update(dict.fromkeys(_read_statement(*statement.groups(""))))
        at = text.find("import", at + 1)
    if not is_dynamic and not extends:
        return Imports(tuple(modules))
    texts = dict.fromkeys(one or other for one, other in _TEXT.findall(text))
    runs_files = any(each in text for each in _RUNS_FILES)
    return Imports(tuple(modules), tuple(texts), extends, runs_files)


def _match_statement(text: str, at: int, end: int) -> re.Match[str] | None:
    """Return the import statement around a position, which begins after an earlier one."""
    line = text.rfind("\n", end, at)
    first = max(line, end)
    start = max(line, text.rfind(";", first, at), text.rfind(":", first, at))
    if start >= 0:
        return _IMPORT.match(text, start)
    # Only the first statement of a file may begin without a line break.
    return None if end else _IMPORT.match(text)


def _read_statement(origin: str, names: str, plain: str) -> list[tuple[int, str, tuple[str, ...]]]:
    """Return the modules of an import statement.

    Args:
        origin: The module after ``from``, with its leading dots.
        names: What is imported from it.
        plain: The modules of a statement without ``from``.
    """
    if plain:
        return [(0, each.split(" as ")[0].strip(), ()) for each in plain.split(",")]
    module = origin.lstrip(".")
    listed = names.strip().split(", ")
    if not all(map(str.isidentifier, listed)):
        listed = _NAME.findall(_NO_NAME.sub("", names))
    return [(len(origin) - len(module), module, tuple(listed))]


def _executes(text: str) -> bool:
    return "exec" in text and ("exec(" in text or "exec (" in text)


def _extends_path(text: str) -> bool:
    """Return whether code may change where modules are searched."""
    if "addsitedir" in text or ("sys. path" in text):
        return True
    return ".path" in text and any(each in text for each in _EXTENDS_PATH)
