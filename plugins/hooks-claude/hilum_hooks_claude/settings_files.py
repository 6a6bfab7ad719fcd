"""Reads the hooks in the settings files of Claude Code.

The files are JSON, in practice also with comments and trailing commas. A mistake never costs the
other hooks: it is reported with its file and line.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from hilum import home_folder
from hilum_guard import find_git_top

from hilum_hooks_claude.hook import (
    EVENTS,
    PRE_TOOL_USE,
    TOOL_EVENTS,
    BrokenGuard,
    Hook,
    Mistake,
    Source,
)
from hilum_hooks_claude.paths import LOCAL_SETTINGS, SETTINGS

MAX_FILE_BYTES = 1_000_000
MAX_HOOKS = 200
"""Maximum number of hooks in one file."""
MAX_TEXT = 10_000
"""Maximum number of characters in a command or a matcher."""
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")
_MATCHER = re.compile(rf'"matcher"\s*:\s*({_STRING})')
# The types of hooks that Claude Code has and hilum does not run.
_OTHER_TYPES = ("agent", "http", "mcp_tool", "prompt")
_BRACKET = re.compile(rf"{_STRING}|[\[{{\n]")
_OTHER_EVENTS = frozenset(
    "PermissionRequest PermissionDenied PostToolBatch SubagentStart UserPromptExpansion Setup"
    " StopFailure TeammateIdle TaskCreated TaskCompleted InstructionsLoaded ConfigChange CwdChanged"
    " FileChanged WorktreeCreate WorktreeRemove PostCompact Elicitation ElicitationResult".split()
)


@attrs.frozen
class SettingsFile:
    """One settings file.

    Attributes:
        path: The file.
        shown: The file as it is shown to the user.
        source: Whose file it is.
        hooks: Its hooks, also those that hilum does not support.
        mistakes: What could not be read.
        disables_hooks: Whether the file switches hooks off (``disableAllHooks``).
        has_table: Whether the file has the key ``hooks`` with a value.
        broken_guards: The hooks before calls that a mistake keeps from running.
        is_unreadable: Whether nothing in the file can be read.
    """

    path: Path
    shown: str
    source: Source
    hooks: tuple[Hook, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    disables_hooks: bool = False
    has_table: bool = False
    broken_guards: tuple[BrokenGuard, ...] = ()
    is_unreadable: bool = False


def list_paths(root: Path) -> list[tuple[Path, str, Source]]:
    """Return the settings files that may exist: path, shown form and source.

    Args:
        root: The project.
    """
    home = Path(home_folder())
    paths: list[tuple[Path, str, Source]] = [
        (home / SETTINGS, f"~/{SETTINGS}", "user"),
    ]
    # In the home folder, the project's file is the user's.
    if root.resolve() != home.resolve():
        paths.append((root / SETTINGS, SETTINGS, "project"))
    paths.append((root / LOCAL_SETTINGS, LOCAL_SETTINGS, "local"))
    return paths


def read_files(root: Path) -> list[SettingsFile]:
    """Return the existing settings files of the user and of a project. Blocks.

    Args:
        root: The project.
    """
    found = []
    for path, shown, source in list_paths(root):
        if not os.path.lexists(path):
            continue
        # A repository must not make hilum read files outside it through a link.
        if source != "user" and not _is_inside(path, root):
            problem = "It is a link that leads out of the project, so it is not read."
            found.append(_make_unreadable(path, shown, source, Mistake(shown, problem)))
        else:
            found.append(read_file(path, shown, source))
    return found


def _is_inside(path: Path, root: Path) -> bool:
    """Return whether a file is in the repository of a project, after links are resolved."""
    top = os.path.realpath(find_git_top(os.path.realpath(root)) or root)
    return os.path.realpath(path).startswith(os.path.join(top, ""))


def read_file(path: Path, shown: str, source: Source) -> SettingsFile:
    """Return the hooks of one settings file. Blocks.

    Args:
        path: The file.
        shown: The file as it is shown to the user.
        source: Whose file it is.
    """
    try:
        text = _read_text(path)
    except OSError as error:
        problem = f"The file cannot be read: {error.strerror or error}."
    except UnicodeError:
        problem = "The file cannot be read: it is neither UTF-8 nor UTF-16."
    except ValueError as error:
        problem = f"The file cannot be read: {error}."
    else:
        return parse_settings(text, path, shown, source)
    return _make_unreadable(path, shown, source, Mistake(shown, problem))


def _make_unreadable(
    path: Path, shown: str, source: Source, mistake: Mistake, text: str | None = None
) -> SettingsFile:
    """Return a settings file of which nothing can be read, with the guards that it may contain.

    Args:
        path: The file.
        shown: The file as it is shown to the user.
        source: Whose file it is.
        mistake: Why it cannot be read.
        text: Its text, if there is any.
    """
    file = SettingsFile(path, shown, source, mistakes=(mistake,), is_unreadable=True)
    if text is not None and PRE_TOOL_USE not in text:
        return file
    # A word that looks like a matcher may belong to another event. Then a call needs approval that
    # no guard would have judged, which is the safe mistake.
    matchers: dict[str | None, None] = {}
    for found in _MATCHER.finditer(text or ""):
        try:
            matchers[json.loads(found[1])] = None
        except json.JSONDecodeError:
            continue
    matchers[None] = None
    guards = [
        BrokenGuard(shown, mistake.place, source, matcher, mistake.problem) for matcher in matchers
    ]
    return attrs.evolve(file, broken_guards=tuple(guards[-MAX_HOOKS:]))


def _read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a regular file, is too large, or is neither UTF-8 nor UTF-16.
    """
    # A pipe would block forever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_FILE_BYTES:,} bytes")
    # Editors and shells on Windows write UTF-16 and byte order marks.
    is_utf_16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    return data.decode("utf-16" if is_utf_16 else "utf-8-sig").replace("\r\n", "\n")


def parse_settings(text: str, path: Path, shown: str, source: Source) -> SettingsFile:
    """Return the hooks in the text of a settings file.

    Args:
        text: The text.
        path: The file.
        shown: The file as it is shown to the user.
        source: Whose file it is.
    """
    file = SettingsFile(path, shown, source)
    if not text.strip():
        return file
    stripped = _strip_comments(text)
    try:
        data = json.loads(stripped)
    except json.JSONDecodeError as error:
        mistake = Mistake(f"{shown}:{error.lineno}", f"It is not JSON: {error.msg}.")
        return _make_unreadable(path, shown, source, mistake, text)
    except RecursionError:
        mistake = Mistake(shown, "It is nested too deeply.")
        return _make_unreadable(path, shown, source, mistake, text)
    if not isinstance(data, dict):
        mistake = Mistake(f"{shown}:1", "It is not an object.")
        return _make_unreadable(path, shown, source, mistake, text)
    reader = _HooksReader(_find_lines(stripped, data), shown, source)
    reader.read(data)
    return attrs.evolve(
        file,
        hooks=tuple(reader.hooks),
        mistakes=tuple(reader.mistakes),
        disables_hooks=data.get("disableAllHooks") is True,
        has_table=bool(data.get("hooks")),
        broken_guards=tuple(reader.broken_guards),
    )


def _strip_comments(text: str) -> str:
    """Replace comments and trailing commas with spaces, so that lines keep their numbers."""

    def blank(found: re.Match[str]) -> str:
        return found[1] or re.sub(r"[^\n]", " ", found[0])

    return _TRAILING_COMMA.sub(blank, _COMMENT.sub(blank, text))


def _find_lines(text: str, data: object) -> dict[int, int]:
    """Return the lines at which the objects and lists of a JSON text begin, by their identity.

    Args:
        text: The text, without comments.
        data: Its value. Objects and lists come in the order of their opening brackets.
    """
    lines = []
    line = 1
    for found in _BRACKET.finditer(text):
        if found[0] == "\n":
            line += 1
        elif found[0] in "[{":
            lines.append(line)
    places: dict[int, int] = {}
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, dict | list):
            continue
        if len(places) < len(lines):
            places[id(value)] = lines[len(places)]
        inner = value.values() if isinstance(value, dict) else value
        waiting += reversed(list(inner))
    return places


class _HooksReader:
    """Reads the table ``hooks`` of one file.

    Args:
        lines: The lines of objects and lists, by their identity.
        shown: The file as it is shown to the user.
        source: Whose file it is.
    """

    def __init__(self, lines: Mapping[int, int], shown: str, source: Source) -> None:
        self._lines = lines
        self._shown = shown
        self._source = source
        self._line = 1
        self.hooks: list[Hook] = []
        self.mistakes: list[Mistake] = []
        self.broken_guards: list[BrokenGuard] = []

    def read(self, data: Mapping[str, object]) -> None:
        """Read all hooks of the file."""
        table = data.get("hooks")
        if table is None:
            return
        self._enter(table)
        if not isinstance(table, dict):
            problem = "`hooks` is not an object with a list for each event."
            self._report(problem)
            if PRE_TOOL_USE in json.dumps(table):
                self._add_broken_guard(None, problem)
            return
        for event, groups in table.items():
            self._enter(groups)
            if not isinstance(groups, list):
                self._report_hook(event, None, f"`{event}` is not a list.")
                continue
            unknown = _explain_unsupported(event, "")
            if not groups and unknown:
                self._report(f"`{event}` contains no hook, and {unknown}.")
            for group in groups:
                self._read_group(event, group)

    def _read_group(self, event: str, group: object) -> None:
        self._enter(group)
        if not isinstance(group, dict):
            problem = f"An entry of `{event}` is not an object with `hooks`."
            self._report_hook(event, None, problem)
            return
        matcher = group.get("matcher", "")
        if not isinstance(matcher, str) or len(matcher) > MAX_TEXT:
            problem = f"The `matcher` of an entry of `{event}` is not a short text."
            self._report_hook(event, None, problem)
            return
        entries = group.get("hooks")
        if not isinstance(entries, list):
            self._report_hook(event, matcher, f"An entry of `{event}` has no list `hooks`.")
            return
        for entry in entries:
            self._read_entry(event, matcher, entry)

    def _read_entry(self, event: str, matcher: str, entry: object) -> None:
        self._enter(entry)
        if not isinstance(entry, dict):
            problem = f"A hook of `{event}` is not an object with `command`."
            self._report_hook(event, matcher, problem)
            return
        if len(self.hooks) >= MAX_HOOKS:
            problem = f"Hooks after the first {MAX_HOOKS} are left out."
            self._report_hook(event, matcher, problem)
            return
        try:
            hook = self._make_hook(event, matcher, entry)
        except ValueError as error:
            self._report_hook(event, matcher, f"A hook of `{event}` {error}.")
            return
        self.hooks.append(hook)
        if event not in EVENTS and _means_guard(event):
            problem = f"Claude Code has no event {event!r}; {PRE_TOOL_USE} is probably meant."
            self._add_broken_guard(matcher, problem)

    def _make_hook(self, event: str, matcher: str, entry: Mapping[str, Any]) -> Hook:
        """Return the hook of an entry.

        Raises:
            ValueError: The entry has a mistake, as a phrase.
        """
        hook = Hook(self._shown, self._line, self._source, event, matcher)
        kind = entry.get("type", "command")
        if kind != "command" and kind not in _OTHER_TYPES:
            raise ValueError(f"has the type {kind!r}, which Claude Code does not have")
        if kind != "command":
            label = str(entry.get("prompt") or entry.get("url") or entry.get("tool") or kind)
            why = f"hilum runs commands only, not hooks of the type {kind!r}"
            return attrs.evolve(hook, command=label[:MAX_TEXT], unsupported=why)
        command = entry.get("command")
        if not isinstance(command, str) or not command.strip():
            raise ValueError("has no `command`")
        if len(command) > MAX_TEXT or "\0" in command:
            raise ValueError("has a `command` that is too long or contains NUL")
        timeout = entry.get("timeout", 0)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout < 0:
            raise ValueError("has a `timeout` that is not a number of seconds")
        condition = entry.get("if", "")
        if not isinstance(condition, str):
            raise ValueError("has an `if` that is not a text")
        return attrs.evolve(
            hook,
            command=command,
            arguments=_read_arguments(entry.get("args")),
            condition=condition,
            timeout=float(timeout),
            runs_async=entry.get("async") is True or entry.get("asyncRewake") is True,
            unsupported=_explain_unsupported(event, condition),
        )

    def _enter(self, value: object) -> None:
        """Move on to the line of an object or a list."""
        self._line = self._lines.get(id(value), self._line)

    def _report(self, problem: str) -> None:
        self.mistakes.append(Mistake(f"{self._shown}:{self._line}", problem))

    def _report_hook(self, event: str, matcher: str | None, problem: str) -> None:
        """Report a mistake in a hook, and remember the hook if it would judge calls.

        Args:
            event: Its event.
            matcher: The tools whose calls it would judge; ``None`` if that cannot be read.
            problem: A sentence.
        """
        self._report(problem)
        if _means_guard(event):
            self._add_broken_guard(matcher, problem)

    def _add_broken_guard(self, matcher: str | None, problem: str) -> None:
        if len(self.broken_guards) < MAX_HOOKS:
            place = f"{self._shown}:{self._line}"
            guard = BrokenGuard(self._shown, place, self._source, matcher, problem)
            self.broken_guards.append(guard)


def _means_guard(event: str) -> bool:
    """Return whether an event is the one before calls, perhaps with a slip in its name."""
    if event in EVENTS or event in _OTHER_EVENTS:
        return event == PRE_TOOL_USE
    return bool(difflib.get_close_matches(event.casefold(), [PRE_TOOL_USE.casefold()], cutoff=0.85))


def _read_arguments(value: object) -> tuple[str, ...] | None:
    """Return the arguments of a program.

    Raises:
        ValueError: They are not a list of texts.
    """
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError("has `args` that are not a list of texts")
    for each in value:
        if not isinstance(each, str) or "\0" in each:
            raise ValueError("has `args` that are not a list of texts")
    return tuple(value)


def _explain_unsupported(event: str, condition: str) -> str:
    """Return why hilum does not run a command at an event; empty if it does."""
    if event in _OTHER_EVENTS:
        return f"hilum has no event {event}"
    if event not in EVENTS:
        return f"Claude Code has no event {event!r}"
    if condition and event not in TOOL_EVENTS:
        return f"`if` has a meaning for calls of tools only, not for {event}"
    return ""
