"""What a question about a call shows: a change of a file as a diff, everything else in full,
nothing hidden.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hilum_commandline
from hilum import Session, ToolError
from hilum.events import ApprovalAsked

from hilum_cli.progress import parsed
from hilum_cli.terminal import cells, line

FOLD_ROWS = 40
"""Rows of the terminal that a question takes; what is longer is folded in its middle."""
TAIL_ROWS = 12
"""Rows of the end that stay when it is folded: padding must hide nothing."""
MAX_BYTES = 2_000_000
"""Bytes of a file that a diff is made of."""
MAX_DIFF_LINES = 4_000
"""Lines above which two files are not compared, as that takes quadratic time."""

_HOSTS = re.compile(
    r"[a-z][a-z0-9+.-]{0,30}://(?:[^\s/?#@]*@)?[^\s/?#:\"'`]*[^\x00-\x7f][^\s/?#:\"'`]*", re.I
)


def _guard() -> Any:
    """Import the guard with the first question: a guard that does not load must not keep hilum from
    running.
    """
    import hilum_guard

    return hilum_guard


def describe(asked: ApprovalAsked, session: Session | None = None) -> str:
    """Return a question as text: what would happen, with every argument in full, and why it is
    asked. May read files.
    """
    if asked.agent not in ("", "main"):
        who = f" for the agent {line(asked.agent, 60)}"
    else:
        who = ""
    head = f"── {asked.call.name} ({asked.risk}) wants to run{who}" + (
        f": {asked.reason}" if asked.reason else ""
    )
    data = parsed(asked.call.arguments)
    arguments = data if isinstance(data, dict) else {"arguments": data}
    if session is not None:
        change = _change(asked.call.name, arguments, session)
    else:
        change = None
    if change is not None:
        body = change
    else:
        body = [row for pair in arguments.items() for row in _argument(*pair)]
    text = "\n".join([head, *body, *_hosts(arguments)])
    shown = visible(text)
    if shown != text:
        shown += (
            "\n   (Characters that do not show, or change how text looks, are written as escapes:"
            " \\x1b, \\u202e.)"
        )
    return shown


def visible(text: str) -> str:
    """Return a text with control, colour, direction and zero-width characters as escapes.

    Nothing is left out.
    """
    return hilum_commandline.neutral(text)


def _argument(name: str, value: object) -> Iterator[str]:
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    if "\n" in text:
        yield f"   {name}:"
        yield from (f"     {row}" for row in text.split("\n"))
    else:
        yield f"   {name}: {text}"


# --- changes of files -----------------------------------------------------------------------------


def _change(tool: str, arguments: Mapping[str, Any], session: Session) -> list[str] | None:
    """Return what a call changes in a file, as a unified diff.

    ``None`` where it is no such call, or cannot be told.
    """
    path = arguments.get("path")
    if tool not in ("write_file", "edit_file", "multi_edit", "delete_file") or not isinstance(
        path, str
    ):
        return None
    old = _read(session, path)
    if old is None:
        return None
    if tool == "delete_file":
        return [f"   deletes {path} ({_count(old)})"]
    new = _changed(tool, arguments, old)
    if new is None:
        return None
    if tool == "write_file":
        existing = _exists(session, path)
        if existing:
            head = f"   overwrites {_count(old)} of {path} with {_count(new)}"
        else:
            head = f"   creates {path} ({_count(new)})"
    else:
        head = f"   changes {path}"
    more = sorted(set(arguments) - {"path", "content", "old_string", "new_string", "edits"})
    rest = [row for name in more for row in _argument(name, arguments[name])]
    return [head, *rest, *_diff(old, new)]


def _changed(tool: str, arguments: Mapping[str, Any], old: str) -> str | None:
    """Return the new text of a file; ``None`` where an edit does not stand in it exactly once."""
    if tool == "write_file":
        content = arguments.get("content")
        return content if isinstance(content, str) else None
    edits = arguments.get("edits") if tool == "multi_edit" else [arguments]
    if not isinstance(edits, list):
        return None
    text = old
    for edit in edits:
        if not isinstance(edit, Mapping):
            return None
        before = edit.get("old_string")
        after = edit.get("new_string")
        if (
            not isinstance(before, str)
            or not isinstance(after, str)
            or not before
            or text.count(before) != 1
        ):
            return None
        text = text.replace(before, after)
    return text


def _resolved(session: Session, path: str) -> Path | None:
    try:
        return session.workspace.resolve(path)
    except ToolError:
        return None


def _exists(session: Session, path: str) -> bool:
    place = _resolved(session, path)
    return place is not None and place.exists()


def _read(session: Session, path: str) -> str | None:
    """Return the text of a file, empty for one that is not there.

    ``None`` where it cannot be shown.
    """
    place = _resolved(session, path)
    if place is None:
        return None
    try:
        if not place.exists():
            return ""
        if not place.is_file() or place.stat().st_size > MAX_BYTES:
            return None
        return place.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None


def _count(text: str) -> str:
    lines = len(text.splitlines())
    return "1 line" if lines == 1 else f"{lines:,} lines"


def _diff(old: str, new: str) -> Iterator[str]:
    before = old.splitlines()
    after = new.splitlines()
    if len(before) > MAX_DIFF_LINES or len(after) > MAX_DIFF_LINES:
        yield "   (too long to be compared; the new text:)"
        yield from (f"   +{row}" for row in after)
        return
    rows = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    yield from (f"   {row}" for row in rows)
    if not rows:
        yield "   (no line differs; only line ends do)" if old != new else "   (nothing differs)"


# --- hosts ----------------------------------------------------------------------------------------


def _hosts(arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each host that is written in other letters than it is connected to."""
    for value in arguments.values():
        for address in _HOSTS.findall(value) if isinstance(value, str) else ():
            host = _guard().host_of(address) or "no valid host"
            letters = sorted({_script(char) for char in address if not char.isascii()} - {""})
            if letters:
                named = f", with {', '.join(letters)} letters that can look like others"
            else:
                named = ""
            yield (
                f"   host: {host} (written {address.partition('://')[2].rpartition('@')[2]}{named})"
            )


def _script(char: str) -> str:
    name = unicodedata.name(char, "") if char.isalpha() else ""
    return name.partition(" ")[0].title()


# --- how much of it -------------------------------------------------------------------------------


def folded(text: str, width: int, rows: int = FOLD_ROWS) -> tuple[str, bool]:
    """Return a text cut to some rows of a terminal, without its middle, and whether anything is
    left out.
    """
    wrapped = [row for part in text.split("\n") for row in _rows(part, width)]
    if len(wrapped) <= rows:
        return text, False
    head = wrapped[: rows - TAIL_ROWS - 1]
    tail = wrapped[-TAIL_ROWS:]
    left_out = len(wrapped) - len(head) - len(tail)
    return (
        "\n".join(
            [*head, f"   … {left_out:,} rows are not shown here: v shows all of it …", *tail]
        ),
        True,
    )


def _rows(text: str, width: int) -> Iterator[str]:
    """Yield the rows that a line takes on a terminal."""
    if cells(text) <= width:
        yield text
        return
    row = ""
    used = 0
    for char in text:
        size = cells(char)
        if used + size > width:
            yield row
            row = ""
            used = 0
        row += char
        used += size
    yield row


# --- what a lasting yes covers --------------------------------------------------------------------


def lasting(asked: ApprovalAsked) -> str:
    """Return in words which calls a lasting yes covers."""
    if not asked.scope:
        return f"every call of {line(asked.call.name, 60)}"
    try:
        rule = _guard().parse_rule(asked.scope, "allow")
    except ValueError:
        return visible(asked.scope)
    pattern = rule.pattern
    if pattern is None:
        return f"every call of {visible(rule.tool)}"
    if pattern.startswith("="):
        lines = pattern.count("\n") + 1
        if lines == 1:
            return "exactly this command"
        return f"exactly these {lines} lines, and no others"
    if pattern.startswith("domain:"):
        return f"every call of {visible(rule.tool)} to the host {visible(pattern[7:])}"
    if pattern.startswith("url="):
        return f"every call of {visible(rule.tool)} with exactly this address"
    if pattern.endswith(" *"):
        return f"every command `{visible(pattern[:-2])} …`"
    return f"every call of {visible(rule.tool)} for {visible(pattern)}"
