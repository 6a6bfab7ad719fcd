"""Write the text of an approval question about a tool call, for every user interface.

A file change is shown as a diff. Everything else is shown in full, because the user must not
approve anything that is not shown.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from hilum import Session, ToolError, config_folder
from hilum.command import escape_terminal
from hilum.events import ApprovalAsked

from hilum_guard.call_reader import parse_arguments
from hilum_guard.dangers.call_dangers import find_dangers
from hilum_guard.hosts.addresses import host_of
from hilum_guard.rules.matching import DOMAIN, EXACT, parse
from hilum_guard.rules.rule_files import user_file
from hilum_guard.session_guard import Guard

__all__ = ["describe_call", "describe_scope", "find_dangers", "find_rule_file"]

MAX_BYTES = 2_000_000
"""Maximum size of a file, in bytes, for which a diff is shown."""
MAX_DIFF_LINES = 4_000
"""Maximum number of lines in each of the files to compare; comparing takes quadratic time."""

_CHANGING = ("write_file", "edit_file", "multi_edit", "delete_file")
# Arguments that are shown as part of the diff.
_IN_DIFF = {"path", "content", "old_string", "new_string", "edits"}
# URLs with a non-ASCII character in the host.
_HOSTS = re.compile(
    r"[a-z][a-z0-9+.-]{0,30}://(?:[^\s/?#@]*@)?[^\s/?#:\"'`]*[^\x00-\x7f][^\s/?#:\"'`]*", re.I
)


def describe_call(asked: ApprovalAsked, session: Session | None = None) -> str:
    """Return an approval question as text: the call with all its arguments in full, and the reason.

    May read files.

    Args:
        asked: The question.
        session: The call's session; without it, there are no diffs.
    """
    head = f"── {asked.call.name} ({asked.risk}) wants to run"
    if asked.agent not in ("", "main"):
        head += f" for the agent {_name(asked.agent)}"
    if asked.reason:
        head += f"\n   Needs approval: {asked.reason}"
    arguments = parse_arguments(asked.call.arguments)
    body = None if session is None else _change(asked.call.name, arguments, session)
    if body is None:
        body = []
        for name, value in arguments.items():
            body += _argument(name, value)
    text = "\n".join([head, *body, *_hosts(arguments)])
    # A model could hide a part of the call from the user with control characters.
    shown = escape_terminal(text)
    if shown != text:
        shown += (
            "\n   (Characters that are invisible, or change how text looks, are written as escapes:"
            " \\x1b, \\u202e.)"
        )
    return shown


def _name(text: str) -> str:
    """Return a name on one line, truncated to 60 characters."""
    return escape_terminal(" ".join(text.split()))[:60]


def _argument(name: str, value: object) -> Iterator[str]:
    """Yield the lines of one argument."""
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
    """Return a call's change to a file as a unified diff, or None if there is no diff to show."""
    path = arguments.get("path")
    if tool not in _CHANGING or not isinstance(path, str):
        return None
    place = _resolve(session, path)
    old = None if place is None else _read(place)
    if place is None or old is None:
        return None
    if tool == "delete_file":
        return [f"   deletes {path} ({_count(old)})"]
    new = _changed(tool, arguments, old)
    if new is None:
        return None
    if tool != "write_file":
        rows = [f"   changes {path}"]
    elif place.exists():
        rows = [f"   overwrites {_count(old)} of {path} with {_count(new)}"]
    else:
        rows = [f"   creates {path} ({_count(new)})"]
    for name in sorted(set(arguments) - _IN_DIFF):
        rows += _argument(name, arguments[name])
    return [*rows, *_diff(old, new)]


def _changed(tool: str, arguments: Mapping[str, Any], old: str) -> str | None:
    """Return the new text of a file, or None if an edit does not match exactly once."""
    if tool == "write_file":
        content = arguments.get("content")
        return content if isinstance(content, str) else None
    edits = arguments.get("edits") if tool == "multi_edit" else [arguments]
    if not isinstance(edits, list):
        return None
    text = old
    for edit in edits:
        changed = _apply_edit(edit, text)
        if changed is None:
            return None
        text = changed
    return text


def _apply_edit(edit: object, text: str) -> str | None:
    """Return text with one edit applied, or None if the edit does not match exactly once."""
    if not isinstance(edit, Mapping):
        return None
    before = edit.get("old_string")
    after = edit.get("new_string")
    if not isinstance(before, str) or not isinstance(after, str):
        return None
    # The tool would also reject such an edit, so there is no diff to show.
    if not before or text.count(before) != 1:
        return None
    return text.replace(before, after)


def _resolve(session: Session, path: str) -> Path | None:
    try:
        return session.workspace.resolve(path)
    except ToolError:
        return None


def _read(place: Path) -> str | None:
    """Return a file's text, an empty string if it does not exist, or None if it cannot be shown."""
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
        yield "   (too long to compare; the new text:)"
        yield from (f"   +{row}" for row in after)
        return
    rows = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    yield from (f"   {row}" for row in rows)
    if not rows:
        yield "   (only the line endings differ)" if old != new else "   (nothing differs)"


# --- hosts ----------------------------------------------------------------------------------------


def _hosts(arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each host whose real name differs from its spelling in the URL."""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    for address in chain.from_iterable(map(_HOSTS.findall, texts)):
        host = host_of(address) or "no valid host"
        # Text before an `@` is a user name, which may imitate another host.
        written = address.partition("://")[2].rpartition("@")[2]
        scripts = sorted({_script(char) for char in address if not char.isascii()} - {""})
        if scripts:
            written += f", with {', '.join(scripts)} letters that can look like others"
        yield f"   host: {host} (written {written})"


def _script(char: str) -> str:
    """Return the script of a letter, such as ``Cyrillic``; empty for other characters."""
    # The Unicode name of a letter begins with its script: CYRILLIC SMALL LETTER A.
    name = unicodedata.name(char, "") if char.isalpha() else ""
    return name.partition(" ")[0].title()


# --- the scope of a lasting approval --------------------------------------------------------------


def find_rule_file(asked: ApprovalAsked, session: Session | None = None) -> str:
    """Return the file in which a lasting approval is stored as a rule; empty if it is not stored."""
    guard = session.plugin(Guard) if session is not None else None
    if guard is not None and not guard.approvals.can_keep(asked.call.id, asked.scope):
        return ""
    # In a session that another process has open, that process stores the rule, in the same file.
    return str(user_file(config_folder())) if asked.scope else ""


def describe_scope(asked: ApprovalAsked) -> str:
    """Return a description of the calls that a lasting approval covers."""
    if not asked.scope:
        return f"every call of {_name(asked.call.name)}"
    try:
        rule = parse(asked.scope, "allow")
    except ValueError:
        return escape_terminal(asked.scope)
    pattern = rule.pattern
    calls = f"every call of {escape_terminal(rule.tool)}"
    if pattern is None:
        return calls
    if pattern.startswith(EXACT):
        count = pattern.count("\n") + 1
        return (
            "exactly this command" if count == 1 else f"exactly these {count} lines, and no others"
        )
    if rule.about_hosts:
        return f"{calls} to the host {escape_terminal(pattern.removeprefix(DOMAIN))}"
    if pattern.startswith("url="):
        return f"{calls} with exactly this address"
    if pattern.endswith(" *"):
        return f"every command `{escape_terminal(pattern[:-2])} …`"
    return f"{calls} for {escape_terminal(pattern)}"
