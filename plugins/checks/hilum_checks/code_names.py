"""Decides whether a quoted name is code, and returns an expression that finds it in files."""

from __future__ import annotations

import re

from hilum_checks import quoted_names
from hilum_checks import vocabulary as v

# Names that can only be code: `print()`, `.unwrap()`, `std::fs`, `Task.Delay`, `// Arrange`.
_CODE = re.compile(
    r"(?:[\w$.]*\w)?\((?:\.\.\.|['\"].*)?\)|[\w$.]+\w\(.*\)|\.[A-Za-z]\w*(?:\(\))?(?:\.\w+\(\))*"
    r"|\w+::[\w:]*|[A-Z]\w*(?:\.[A-Za-z]\w+)+|console\.\w+|as [a-z]+|async [a-z]+"
    r"|//\s?\w+|#!?\[\w+.*\]|@[A-Z]\w+|['\"].+['\"]"
)


def is_code(name: str) -> bool:
    """Return whether a name can only be code, and not a file, a command or a host."""
    if not _CODE.fullmatch(name) or len(name) < 4:
        return False
    # `Program.cs` is a file, and `Node.js` is neither.
    return "(" in name or not (quoted_names.is_path(name) or v.read_host(name))


def code_expression(name: str) -> str:
    """Return an expression for code; for a function, of its calls with any arguments."""
    text = re.sub(r"\((?:\.\.\.)?\)$", "(", name)
    start = r"(?<![\w.$>:])" if re.match(r"\w", text) else ""
    end = r"(?!\w)" if re.search(r"\w$", text) else ""
    return start + re.escape(text).replace(r"\ ", r"\s+") + end
