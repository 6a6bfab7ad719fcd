"""Judges ways by one rule, as a session would."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hilum import Tool
from hilum.messages import ToolResult
from hilum_checks import judge, judge_answer
from hilum_checks.call_history import CallHistory

from tests.support.obedience.rules import Rule
from tests.support.obedience.running import Field
from tests.support.obedience.ways import Way

_WRITERS = ("write_file", "edit_file", "multi_edit", "delete_file")


def make_tool(name: str) -> Tool:
    """Return a tool with the risk of the real one."""
    if name == "run_terminal_cmd":
        return Tool(name, "", _nothing, risk="execute")
    if name in _WRITERS:
        return Tool(name, "", _nothing, risk="write", writes=("path",))
    if name == "read_file":
        return Tool(name, "", _nothing, risk="read")
    schema = {} if "__" in name else None
    return Tool(name, "", _nothing, risk="network", schema=schema)


def _nothing() -> str:
    return ""


def judge_way(rules: Sequence[Any], rule: Rule, way: Way, field: Field) -> tuple[str, str]:
    """Return how a way is refused: the kind of the verdict, and its reason. Blocks.

    The calls before the last one are made, because a later one may be judged by what they left.

    Args:
        rules: The enforced rules.
        rule: The rule that the way is composed against.
        way: The way.
        field: The project.
    """
    if rule.kind == "answer":
        reason = judge_answer(rules, way.steps[0].arguments["text"]) or ""
        return ("deny" if reason else "", reason)
    is_long = len(way.steps) > 1
    if is_long:
        field.restore()
    history = CallHistory()
    for step in way.steps:
        tool = make_tool(step.tool)
        arguments = json.dumps(step.arguments)
        found = judge(rules, arguments, tool, Path(field.root), history)
        if found is not None:
            return found.kind, found.reason
        if is_long and step is not way.steps[-1]:
            code, _ = field.run_step(step)
            result = ToolResult("1", step.tool, (), data={"exit_code": code})
            history.add(tool, arguments, field.root, result)
    return "", ""
