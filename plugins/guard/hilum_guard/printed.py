"""What a few commands print, where their words alone tell."""

from __future__ import annotations

import ast
import base64
import re

from hilum_guard import words as w
from hilum_guard.simple import Simple


def printed(simple: Simple, name: str) -> str | None:
    """Return what some commands print, if their words tell."""
    values = [word.value for word in simple.words[1:]]
    known = all(word.known and not word.glob for word in simple.words)
    if name in {":", "true", "exit", "wait", "sleep"}:
        return ""
    if name == "cat" and not values:
        return simple.stdin
    if name == "tee":
        return simple.stdin
    if (
        name == "mktemp"
        and not simple.assigned
        and all(value in {"-d", "-q", "--directory", "--quiet"} for value in values)
    ):
        return f"/tmp/tmp.{w.UNKNOWN}\n"
    if name == "pwd":
        return simple.cwd
    if name in {"which", "type"} and values:
        return values[-1]
    if name == "ls":
        folders = [value for value in values if not value.startswith("-")] or ["."]
        return "\n".join(f"{folder.rstrip('/')}/*" for folder in folders)
    if name == "base64" and simple.stdin and any(v in {"-d", "-D", "--decode"} for v in values):
        try:
            return base64.b64decode(simple.stdin).decode("utf-8", "replace")
        except ValueError:
            return None
    if name == "echo" and known:
        while values and re.fullmatch(r"-[neE]+", values[0]):
            values.pop(0)
        return w.unescaped(" ".join(values)) + "\n"
    if re.fullmatch(r"python[\d.]*", name) and len(values) == 2 and values[0] == "-c" and known:
        return python_prints(values[1])
    if name == "printf" and values and known:
        form = w.unescaped(values[0])
        rest = values[1:]
        if form.count("%") != form.count("%s"):
            return None
        while "%s" in form:
            form = form.replace("%s", rest.pop(0) if rest else "", 1)
        return form + "".join(rest)
    return None


def python_prints(code: str) -> str | None:
    """Return what Python code prints that does nothing but print texts that stand in it.

    None if it does anything else.
    """
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = []
    for statement in statements:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "print"
        ):
            return None
        texts = [
            each.value
            for each in call.args
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        if call.keywords or len(texts) < len(call.args):
            return None
        lines.append(" ".join(texts) + "\n")
    return "".join(lines)
