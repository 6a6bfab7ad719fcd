"""What a guest reports about its own tool calls, translated into calls of hilum's tools.

A report is a claim. hilum shows it and compares what the guest asks for with the rules, but what
holds the guest is the sandbox, and what it changed is read from the workspace.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

import attrs
import msgspec
import trio

REPORT = "guest_report"
WAIT = "guest_wait"
RUN = "guest_run"
EDIT = "guest_edit"
READ = "guest_read"
FETCH = "guest_fetch"
ACT = "guest_act"
MAX_TITLE = 300  # characters
MAX_CONTENT = 20_000  # characters of what a guest reports about one call
MAX_PATHS = 50
MAX_DIFF = 8_000  # characters of a change in a question to the user
_ENDED = ("completed", "failed")
_KINDS = {
    "execute": RUN,
    "edit": EDIT,
    "delete": EDIT,
    "move": EDIT,
    "read": READ,
    "search": READ,
    "fetch": FETCH,
}


@attrs.define(eq=False)
class GuestAction:
    """A tool call of a guest, as far as the guest has reported it.

    Attributes:
        id: The guest's own id of the call.
        title: What the call does, in the guest's words.
        kind: The protocol's kind of tool call.
        status: ``pending``, ``in_progress``, ``completed`` or ``failed``.
        input: The arguments.
        paths: The paths that the call concerns.
        diffs: The changes that the guest announces: path, old text and new text.
        content: The text that the guest reports.
        shown: Whether a call of hilum currently shows this one.
        reported: Whether the end of the call has been shown.
        ended: Set when the call has ended.
    """

    id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    input: dict[str, Any] = attrs.field(factory=dict)
    paths: list[str] = attrs.field(factory=list)
    diffs: list[tuple[str, str, str]] = attrs.field(factory=list)
    content: str = ""
    shown: bool = False
    reported: bool = False
    ended: trio.Event = attrs.field(factory=trio.Event)

    def update(self, fields: Mapping[str, Any]) -> None:
        """Apply a report; fields of a wrong type are ignored."""
        title = fields.get("title")
        if isinstance(title, str):
            self.title = " ".join(title.split())[:MAX_TITLE]
        if isinstance(fields.get("kind"), str):
            self.kind = fields["kind"]
        if isinstance(fields.get("rawInput"), dict):
            self.input = fields["rawInput"]
        locations = fields.get("locations")
        if isinstance(locations, list):
            paths = [each.get("path") for each in locations if isinstance(each, dict)]
            self.paths = [path for path in paths if isinstance(path, str)][:MAX_PATHS]
        if isinstance(fields.get("content"), list):
            self._read_content(fields["content"])
        status = fields.get("status")
        # A call cannot begin again after its end.
        if isinstance(status, str) and self.status not in _ENDED:
            self.status = status
            if status in _ENDED:
                self.ended.set()

    def _read_content(self, blocks: list[Any]) -> None:
        texts: list[str] = []
        self.diffs = []
        for block in blocks[:MAX_PATHS]:
            if not isinstance(block, dict):
                continue
            inner = block.get("content")
            if block.get("type") == "content" and isinstance(inner, dict):
                texts.append(str(inner.get("text") or ""))
            elif block.get("type") == "diff" and isinstance(block.get("path"), str):
                old, new = block.get("oldText"), block.get("newText")
                self.diffs.append((block["path"], str(old or ""), str(new or "")))
        self.content = "\n".join(texts)[:MAX_CONTENT]

    @property
    def has_started(self) -> bool:
        """Whether the guest says that the call is running or has ended."""
        return self.status != "pending"

    def to_report(self, number: int) -> dict[str, Any]:
        """Return the arguments of the call that shows this one.

        Args:
            number: A number that makes the call differ from others that show the same.
        """
        title = self.title or self.kind
        return {"action": self.id, "title": title, "kind": self.kind, "number": number}

    def to_question(self, root: str) -> tuple[str, dict[str, Any]]:
        """Return the tool and the arguments of the call that asks whether this one may run.

        Args:
            root: Root of the workspace, to which paths are relative.
        """
        tool = _KINDS.get(self.kind, ACT)
        arguments: dict[str, Any] = {"action": self.id, "title": self.title or self.kind}
        if tool == RUN:
            command = self._find_command()
            if not command:
                return ACT, {**arguments, "details": self._describe_input()}
            arguments["command"] = command
        elif tool in (EDIT, READ):
            paths = dict.fromkeys([*self.paths, *(path for path, _, _ in self.diffs)])
            arguments["paths"] = [_relative(path, root) for path in paths]
            if not arguments["paths"]:
                return ACT, {**arguments, "details": self._describe_input()}
            if tool == EDIT:
                arguments["change"] = self._describe_changes(root)
        elif tool == FETCH:
            url = self.input.get("url")
            if not isinstance(url, str):
                return ACT, {**arguments, "details": self._describe_input()}
            arguments["url"] = url
        else:
            arguments["details"] = self._describe_input()
        return tool, arguments

    def _find_command(self) -> str:
        for name in ("command", "cmd"):
            value = self.input.get(name)
            if isinstance(value, str) and value.strip():
                return value
            if isinstance(value, list) and value:
                return shlex.join(map(str, value))
        return ""

    def _describe_input(self) -> str:
        return msgspec.json.encode(self.input).decode()[:MAX_DIFF]

    def _describe_changes(self, root: str) -> str:
        texts = []
        for path, old, new in self.diffs:
            name = _relative(path, root)
            lines = unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="")
            texts.append("\n".join(lines))
        return "\n".join(texts)[:MAX_DIFF]

    def describe_result(self) -> str:
        """Return what the guest reports about the call, marked as its own words."""
        state = self.status if self.ended.is_set() else "still running"
        return f"The program reports: {state}.\n{self.content}".rstrip()


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
                return str(option.get("optionId", ""))
    return ""
