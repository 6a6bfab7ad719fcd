"""Examples of actions, on which proposed checks are tried with the code that judges live calls."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec
from hilum import Tool, ToolResult
from hilum_checks import describe_due, find_due, judge, judge_answer
from hilum_checks.call_history import CallHistory
from hilum_rules.rule import Rule

Action = Literal["run", "write", "create", "delete", "read", "fetch", "call", "answer", "finish"]
MAX_TEXT = 4_000


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action of an agent.

    Attributes:
        do: What the agent does.
        what: The command, path, URL, tool or answer; for ``finish``, a path that was changed before
            a final answer.
        content: The new text of a file that is written.
    """

    do: Action
    what: str
    content: str = ""

    def __str__(self) -> str:
        return f"{self.do} {self.what[:160]}"


def _examples(do: Action, *whats: str) -> tuple[Example, ...]:
    return tuple(Example(do, what) for what in whats)


EVERYDAY: dict[str, tuple[Example, ...]] = {
    "run": _examples("run", "ls", "git status", "python --version"),
    "read": _examples("read", "README.md", "src/hilum_everyday_example/module.py"),
    "write": _examples("write", "notes-of-an-example.txt", "src/hilum_everyday_example/module.py"),
    "call": _examples("call", "read_file", "grep_search", "write_file"),
    "answer": _examples(
        "answer",
        "Done.",
        "The tests pass now, and the file is unchanged.",
        "完成了，测试已通过。",
        "Готово, тесты проходят.",
    ),
}
"""Harmless actions. A check that concerns all of one kind would stop an agent."""


_TEXT = (
    "def add_numbers(first, second):\n"
    '    """Return the sum of 2 numbers, or 0."""\n'
    "    return first + second\n"
)
ORDINARY: dict[str, tuple[Example, ...]] = {
    "command": _examples(
        "run",
        "ls -la",
        "cat README.md",
        "grep -rn hilum_everyday_example src",
        "git status",
        "git diff",
        "python --version",
        "mkdir -p hilum-everyday-example",
        "echo done",
    ),
    "file that an agent reads": _examples(
        "read",
        "README.md",
        "hilum-everyday-example.toml",
        "src/hilum_everyday_example/module.py",
        "tests/test_hilum_everyday_example.py",
    ),
    "file that an agent writes": tuple(
        Example("write", path, text)
        for path in (
            "notes-of-an-example.txt",
            "src/hilum_everyday_example/module.py",
            "src/hilum_everyday_example/other.py",
            "tests/test_hilum_everyday_example.py",
        )
        for text in ("", _TEXT)
    ),
    "text that an agent writes": tuple(
        Example("write", path, text)
        for path in ("notes-of-an-example.txt", "src/hilum_everyday_example/module.py")
        for text in (_TEXT, "The tests pass now, and 2 files are unchanged.\n")
    ),
    "commit": _examples(
        "run",
        "git commit -m 'feat(core): ABC-123 add a search'",
        "git commit -m 'Add a search' -m 'Signed-off-by: A Person <a@example.com>'",
        "git commit -m 'fix: search (#12)'",
        "git commit -m '添加搜索'",
    ),
}
"""Ordinary actions of each kind, with the name of the kind after the word "every". A check that
concerns nearly all of one kind is shown to the user with a warning."""


def make_tool(name: str, risk: str) -> Tool:
    """Return a tool as the judge of calls needs it, from what the log of a session states.

    Args:
        name: The name of the tool.
        risk: Its permission category.
    """
    is_foreign = name.startswith("mcp__")
    return Tool(
        name,
        "",
        _do_nothing,
        risk=risk,  # type: ignore[arg-type]
        writes=("path",) if risk == "write" and not is_foreign else (),
        schema={} if is_foreign else None,
    )


def _do_nothing() -> str:
    """Stand in for the function of a tool that is only judged."""
    return ""


def find_objection(rule: Rule, example: Example, root: Path, *, certain: bool = False) -> str:
    """Return why a rule's check refuses an action or asks about it; empty if it does not. Blocks.

    Args:
        rule: The rule with its check.
        example: The action.
        root: The workspace.
        certain: Whether to ignore doubts that only the run of a command would resolve.
    """
    what = example.what[:MAX_TEXT]
    if example.do == "answer":
        return judge_answer([rule], what) or ""
    if example.do == "finish":
        return _find_due(rule, str(rule.folder / what), root)
    name, risk, arguments = _to_call(example, what, rule.folder)
    tool = make_tool(name, risk)
    verdict = judge([rule], json.dumps(arguments), tool, root)
    if verdict is None or (certain and verdict.kind == "ask" and not _asks(rule)):
        return ""
    # In a session, `make test && git commit` runs the tests before the commit.
    if example.do == "run" and "&&" in what and not certain:
        verdict = judge([rule], json.dumps(arguments), tool, root, CallHistory())
    return verdict.reason if verdict is not None else ""


def _find_due(rule: Rule, path: str, root: Path) -> str:
    """Return which command a rule wants to have run after a change of a file."""
    history = CallHistory()
    arguments = json.dumps({"path": path, "content": "x"})
    history.add(make_tool("write_file", "write"), arguments, root, ToolResult("", "write_file", ()))
    due = find_due([rule], history, root)
    return describe_due(*due[0]) if due else ""


def _asks(rule: Rule) -> bool:
    """Return whether a rule's check requires approval for something, and does not only deny."""
    return rule.check is not None and any(effect == "ask" for effect, _ in rule.check.parts)


def _to_call(example: Example, what: str, folder: PurePosixPath) -> tuple[str, str, dict[str, str]]:
    """Return the tool, its permission category and the arguments with which an agent would act.

    Paths are relative to the folder of the rules file, as in the notation.
    """
    path = str(folder / what)
    if example.do == "run":
        arguments = {"command": what, "working_directory": str(folder)}
        return "run_terminal_cmd", "execute", arguments
    if example.do in ("write", "create"):
        return "write_file", "write", {"path": path, "content": example.content[:MAX_TEXT]}
    if example.do == "delete":
        return "delete_file", "write", {"path": path}
    if example.do == "read":
        return "read_file", "read", {"path": path}
    if example.do == "fetch":
        return "web_fetch", "network", {"url": what}
    return what, _RISKS.get(what, "execute"), {}


_RISKS = {"read_file": "read", "grep_search": "read", "write_file": "write", "web_fetch": "network"}
