"""What a guest reports about its own tool calls, translated into calls of hilum's tools.

A report is a claim. hilum shows it and compares what the guest asks for with the rules, but only
the sandbox restricts the guest, and what it changed is read from the workspace.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any, NamedTuple, TypeGuard

import attrs
import msgspec
import trio

REPORT = "guest_report"
WAIT = "guest_wait"
RUN = "guest_run"
EDIT = "guest_edit"
READ = "guest_read"
FETCH = "guest_fetch"
OTHER = "guest_other"
OWN_CALLS = (REPORT, WAIT, RUN, EDIT, READ, FETCH, OTHER)
"""The tools that only show or allow what the guest does by itself, also beside other things."""
MAX_TITLE = 300  # characters
MAX_CONTENT = 20_000  # characters of what a guest reports about one call
MAX_PATHS = 50
MAX_DIFF = 8_000  # characters of a change in a question to the user
MAX_COMPARED = 200_000  # characters of texts whose difference is shown
MAX_COMPARED_LINES = 4_000
MAX_ID = 500  # characters of the guest's id of a call
MAX_PATH = 4_096  # characters
MAX_COMMAND = 100_000  # characters
_ENDED = ("completed", "failed")
# The tools that ask about the protocol's kinds of calls; `guest_other` asks about the others.
_KINDS = {
    "execute": RUN,
    "edit": EDIT,
    "delete": EDIT,
    "move": EDIT,
    "read": READ,
    "search": READ,
    "fetch": FETCH,
}


class FileDiff(NamedTuple):
    """A change of a file that a guest announces: the whole text, or a part that occurs once."""

    path: str
    old: str
    new: str


@attrs.define(eq=False)
class GuestAction:
    """A tool call of a guest, as far as the guest has reported it.

    Attributes:
        id: The guest's own id of the call.
        title: What the call does, in the guest's words.
        kind: The protocol's kind of tool call.
        status: ``pending``, ``in_progress``, ``completed`` or ``failed``.
        input: The arguments, as JSON.
        paths: The paths that the call concerns.
        diffs: The changes that the guest announces.
        content: The text that the guest reports.
        is_shown: Whether a call of hilum shows this one, or has shown how it ended.
        ended: Set when the call has ended.
    """

    id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    input: bytes = b"{}"
    paths: list[str] = attrs.field(factory=list)
    diffs: list[FileDiff] = attrs.field(factory=list)
    content: str = ""
    is_shown: bool = False
    ended: trio.Event = attrs.field(factory=trio.Event)

    def update(self, fields: Mapping[str, Any]) -> None:
        """Apply a report; fields of a wrong type are ignored."""
        title = fields.get("title")
        if isinstance(title, str):
            self.title = " ".join(title.split())[:MAX_TITLE]
        kind = fields.get("kind")
        if isinstance(kind, str):
            self.kind = kind if kind in _KINDS else "other"
        if isinstance(fields.get("rawInput"), dict):
            self.input = msgspec.json.encode(fields["rawInput"])
        locations = fields.get("locations")
        if isinstance(locations, list):
            paths = [each.get("path") for each in locations if isinstance(each, dict)]
            self.paths = [path for path in paths[:MAX_PATHS] if _is_path(path)]
        if isinstance(fields.get("content"), list):
            self._read_content(fields["content"])
        status = fields.get("status")
        # A call cannot begin again after its end.
        if isinstance(status, str) and self.status not in _ENDED:
            self.status = status
            if status in _ENDED:
                self.ended.set()

    def drop_details(self) -> None:
        """Drop what is needed only while hilum may be asked about the call."""
        if self.ended.is_set():
            self.input = b"{}"
            self.diffs = []

    @property
    def size(self) -> int:
        """Number of characters that the call takes in memory."""
        size = len(self.id) + len(self.title) + len(self.input) + len(self.content)
        size += sum(len(path) for path in self.paths)
        return size + sum(len(text) for diff in self.diffs for text in diff)

    def _read_content(self, blocks: list[Any]) -> None:
        texts: list[str] = []
        self.diffs = []
        for block in blocks[:MAX_PATHS]:
            if not isinstance(block, dict):
                continue
            inner = block.get("content")
            if block.get("type") == "content" and isinstance(inner, dict):
                texts.append(str(inner.get("text") or ""))
            elif block.get("type") == "diff" and _is_path(block.get("path")):
                old = str(block.get("oldText") or "")
                new = str(block.get("newText") or "")
                self.diffs.append(FileDiff(block["path"], old, new))
        self.content = "\n".join(texts)[:MAX_CONTENT]

    @property
    def has_started(self) -> bool:
        """Whether the guest says that the call is running or has ended."""
        return self.status != "pending"

    @property
    def needs_report(self) -> bool:
        """Whether hilum has to show the call to the user."""
        return self.has_started and not self.is_shown

    def to_report(self, number: int) -> dict[str, Any]:
        """Return the arguments of the call that shows this one.

        Args:
            number: A number that makes the call differ from others that show the same.
        """
        title = self.title or self.kind
        return {"action": self.id, "title": title, "kind": self.kind, "number": number}

    def to_question(self, root: str) -> tuple[str, dict[str, Any]]:
        """Return the tool and the arguments of the call that asks whether this one may run. Blocks.

        Args:
            root: Root of the workspace, to which paths are relative.

        Raises:
            ValueError: The command is too long to be judged.
        """
        tool = _KINDS.get(self.kind, OTHER)
        arguments: dict[str, Any] = {"action": self.id, "title": self.title or self.kind}
        if tool == RUN:
            command = self._find_command()
            if not command:
                return OTHER, {**arguments, "details": self._describe_input()}
            if len(command) > MAX_COMMAND:
                raise ValueError(f"The command has more than {MAX_COMMAND:,} characters.")
            arguments["command"] = command
        elif tool in (EDIT, READ):
            paths = dict.fromkeys([*self.paths, *(diff.path for diff in self.diffs)])
            if not paths:
                return OTHER, {**arguments, "details": self._describe_input()}
            arguments["paths"] = [_relative(path, root) for path in paths]
            if tool == EDIT:
                arguments["change"] = describe_changes(self.diffs, root)[:MAX_DIFF]
        elif tool == FETCH:
            url = msgspec.json.decode(self.input).get("url")
            if not isinstance(url, str) or len(url) > MAX_PATH:
                return OTHER, {**arguments, "details": self._describe_input()}
            arguments["url"] = url
        else:
            arguments["details"] = self._describe_input()
        return tool, arguments

    def _find_command(self) -> str:
        given = msgspec.json.decode(self.input)
        for name in ("command", "cmd"):
            value = given.get(name)
            if isinstance(value, str) and value.strip():
                return value
            if isinstance(value, list) and value:
                return shlex.join(map(str, value))
        return ""

    def _describe_input(self) -> str:
        return self.input.decode()[:MAX_DIFF]

    def describe_result(self) -> str:
        """Return what the guest reports about the call, marked as its own words."""
        state = self.status if self.ended.is_set() else "still running"
        return f"The program reports: {state}.\n{self.content}".rstrip()


def describe_changes(diffs: Sequence[FileDiff], root: str) -> str:
    """Return announced changes as text for the user. Blocks.

    Args:
        diffs: The changes.
        root: Root of the workspace, to which paths are relative.
    """
    texts = []
    for diff in diffs:
        name = _relative(diff.path, root)
        old, new = _split_lines(diff.old), _split_lines(diff.new)
        if is_comparable(diff):
            lines = unified_diff(old, new, name, name, lineterm="")
            texts.append("\n".join(lines))
        else:
            texts.append(f"{name}: {len(old):,} lines become {len(new):,} lines.")
    return "\n".join(texts)


def _split_lines(text: str) -> list[str]:
    # Not `splitlines`: it would hide that a change only replaces one line separator with another,
    # which can turn a comment into code.
    return text.split("\n") if text else []


def is_comparable(diff: FileDiff) -> bool:
    """Return whether a change is small enough to be shown as a difference."""
    lines = diff.old.count("\n") + diff.new.count("\n")
    return len(diff.old) + len(diff.new) <= MAX_COMPARED and lines <= MAX_COMPARED_LINES


def _is_path(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= MAX_PATH


def _relative(path: str, root: str) -> str:
    """Return a path relative to the workspace; a path outside it stays absolute."""
    joined = os.path.normpath(os.path.join(root, path))
    relative = os.path.relpath(joined, root)
    return joined if relative.startswith("..") else relative


def choose_option(options: object, allowed: bool) -> str:
    """Return the id of the option that answers a permission request; empty if none fits.

    Lasting permissions are kept by hilum and not by the guest, so an option for one call is
    preferred.
    """
    kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    listed = options if isinstance(options, list) else []
    for kind in kinds:
        for option in listed:
            if isinstance(option, dict) and option.get("kind") == kind:
                identity = option.get("optionId")
                if isinstance(identity, str) and len(identity) <= MAX_ID:
                    return identity
    return ""
