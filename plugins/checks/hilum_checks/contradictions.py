"""Finds rules that exclude each other: one requires what another one denies.

Such rules would let an agent do nothing that waits for the requirement, and no denial says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import msgspec
from hilum import Tool

from hilum_checks.model import (
    ORDERS,
    ChangedTogether,
    Check,
    CommandBefore,
    Constraint,
    ReadFirst,
    RunFirst,
)
from hilum_checks.verdicts import EnforcedRule, judge

_WILDCARD = re.compile(r"[*?\[]|/$")


class Contradiction(NamedTuple):
    """Two rules that exclude each other.

    Attributes:
        requiring: The rule that requires something.
        forbidding: The rule that denies it.
        action: What is required: `` `npm run lint` ``.
    """

    requiring: EnforcedRule
    forbidding: EnforcedRule
    action: str


@attrs.frozen
class _Denials:
    """The denials of a rule that depend on nothing else."""

    sentence: str
    path: str
    line: int
    check: Check


class _Need(NamedTuple):
    """A call that would fulfil a requirement."""

    tool: Tool
    arguments: dict[str, Any]
    action: str


def find_contradictions(rules: Iterable[EnforcedRule], root: Path) -> Iterator[Contradiction]:
    """Yield rules that require something that another rule certainly denies. Blocks.

    Args:
        rules: The rules.
        root: The root of the workspace.
    """
    enforced = [rule for rule in rules if rule.check is not None]
    denials = [limited for rule in enforced if (limited := _keep_denials(rule)) is not None]
    for rule in enforced:
        for needs in map(_find_needs, _list_orders(rule)):
            # One of several possible calls is enough.
            forbidding = [_find_denial(denials, need, root) for need in needs]
            first = forbidding[0] if forbidding else None
            if first is not None and all(forbidding):
                yield Contradiction(rule, first, needs[0].action)


def _keep_denials(rule: EnforcedRule) -> _Denials | None:
    parts = () if rule.check is None else rule.check.parts
    kept = tuple(part for part in parts if part[0] == "deny" and not isinstance(part[1], ORDERS))
    return _Denials(rule.sentence, rule.path, rule.line, Check(kept)) if kept else None


def _list_orders(rule: EnforcedRule) -> Iterator[Constraint]:
    for _, constraint in () if rule.check is None else rule.check.parts:
        if isinstance(constraint, ORDERS):
            yield constraint


def _find_needs(constraint: Constraint) -> Sequence[_Need]:
    """Return the calls of which one fulfils a requirement; none if they are not known exactly."""
    if isinstance(constraint, CommandBefore | RunFirst):
        commands = [" ".join(words) for words in constraint.needed.patterns]
        if any(map(_WILDCARD.search, commands)):
            return ()
        folder = constraint.needed.folder
        tool = _make_tool("run_terminal_cmd", "execute")
        return [
            _Need(tool, {"command": each, "working_directory": folder}, f"`{each}`")
            for each in commands
        ]
    if not isinstance(constraint, ChangedTogether | ReadFirst):
        return ()
    paths = [path.lstrip("/") for path in constraint.needed.patterns]
    if any(map(_WILDCARD.search, paths)):
        return ()
    if isinstance(constraint, ReadFirst):
        tool = _make_tool("read_file", "read")
        return [_Need(tool, {"path": path}, f"reading `{path}`") for path in paths]
    tool = _make_tool("write_file", "write")
    return [_Need(tool, {"path": path, "content": ""}, f"writing `{path}`") for path in paths]


def _find_denial(denials: Sequence[_Denials], need: _Need, root: Path) -> _Denials | None:
    """Return the first rule that certainly denies a call."""
    arguments = msgspec.json.encode(need.arguments).decode()
    for rule in denials:
        verdict = judge([rule], arguments, need.tool, root)
        if verdict is not None and verdict.kind == "deny":
            return rule
    return None


def _make_tool(name: str, risk: str) -> Tool:
    writes = ("path",) if risk == "write" else ()
    return Tool(name, "", _do_nothing, risk=risk, writes=writes)  # type: ignore[arg-type]


def _do_nothing() -> str:
    """Stand in for the function of a tool that is only judged."""
    return ""
