"""Find what is dangerous or notable in a tool call that awaits approval."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hilum import Danger, Session, ToolError
from hilum.events import ApprovalAsked

from hilum_guard.call_reader import CheckedCall, parse_arguments, read_call
from hilum_guard.commands import judge_command
from hilum_guard.dangers import command_dangers, file_dangers
from hilum_guard.dangers.host_dangers import mark_hosts
from hilum_guard.dangers.marks import Mark, Rank, show_path, summarize
from hilum_guard.effects.network_use import hosts_of
from hilum_guard.hosts.addresses import host_of, is_web_address


def find_dangers(asked: ApprovalAsked, session: Session | None = None) -> Sequence[Danger]:
    """Return at most five phrases on what is dangerous or notable in a call, most important first.

    May read files. A user interface shows the phrases with the question, and offers no lasting
    approval if one of them is grave. The absence of phrases does not mean that the call is
    harmless: code in scripts, tests and other languages is not read.

    Args:
        asked: The question.
        session: The call's session; without it, the current folder counts as the workspace, and
            only commands and addresses are checked.
    """
    try:
        return summarize(_find_marks(asked, session))
    # A call that cannot be analysed must not look harmless, whatever the reason.
    except Exception:
        return summarize([command_dangers.UNREADABLE])


def _find_marks(asked: ApprovalAsked, session: Session | None) -> Iterator[Mark]:
    arguments = parse_arguments(asked.call.arguments)
    command = arguments.get("command")
    if asked.risk == "execute" and isinstance(command, str):
        yield from _mark_command_line(command, arguments, session)
        return
    url = arguments.get("url")
    if isinstance(url, str) and is_web_address(url):
        yield from mark_hosts([_find_written_host(url)])
    call = _read_call(asked, session)
    if call is not None:
        yield from _mark_files(call)


def _mark_command_line(
    command: str, arguments: Mapping[str, Any], session: Session | None
) -> Iterator[Mark]:
    given = str(arguments.get("working_directory") or ".")
    if session is None:
        roots = [os.path.realpath(os.curdir)]
        folder = Path(roots[0], given)
    else:
        roots = [str(root) for root in session.workspace.roots]
        folder = session.workspace.resolve(given)
    extra_roots = tuple(map(Path, roots[1:]))
    verdict = judge_command(
        command, workspace=Path(roots[0]), folder=folder, extra_roots=extra_roots
    )
    yield from command_dangers.find_marks(verdict, roots)


def _find_written_host(url: str) -> str:
    """Return a URL's host as written, or in Punycode if the written form cannot be determined."""
    return next(iter(hosts_of(url)), host_of(url))


def _read_call(asked: ApprovalAsked, session: Session | None) -> CheckedCall | None:
    """Return the call as the guard judges it, or None if the tool does not exist."""
    tool = None if session is None else session.tools.get(asked.call.name)
    if session is None or tool is None:
        return None
    try:
        return read_call(tool, asked.call.arguments, session.workspace)
    except ToolError:
        return None  # the tool will reject the call


def _mark_files(call: CheckedCall) -> Iterator[Mark]:
    root = str(call.root)
    changes = file_dangers.select_changes(call.facts.resolved.effects, root)
    yield from file_dangers.mark_executed(changes, root, is_command=False)
    for change in changes:
        if change.kind == "delete":
            yield Mark(Rank.OTHER, "deletes {}", show_path(change.path))
