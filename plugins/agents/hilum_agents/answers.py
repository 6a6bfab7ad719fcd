"""Forms of answers, and whether an answer is true to what the run did: each built-in agent states
one in its file, and an agent of the user's may name one of them or describe its own.

The block for programs at the end of an answer is read, compared with the files of the workspace and
with the calls of the run, and what does not hold goes back to the model. After three objections the
kernel gives the answer, marked as partial.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
from hilum import (
    AssistantMessage,
    Message,
    Tool,
    ToolCall,
    ToolError,
    ToolMessage,
    ToolResult,
    UserMessage,
    Verdict,
    Workspace,
    deny,
)

from hilum_agents.consent import confirmed
from hilum_agents.forms import Form, make_type, wrong_places

MOST_BYTES = 5_000_000
MOST_OBJECTIONS = 6
_SECTIONS = (
    ("Introduction", r"intro|about|overview|what (?:it )?is|why|features|简介|介绍|概述|关于"),
    (
        "Installation",
        r"install|setup|set up|getting started|quick ?start|requirements|安装|部署|快速开始",
    ),
    ("Usage", r"usage|use|using|example|quick ?start|getting started|tutorial|使用|用法|示例|例子"),
    ("API", r"api|reference|commands|options|functions|interface|configuration|接口|参考|命令"),
    ("Contributing", r"contribut|develop|hacking|贡献|参与|开发"),
)


class Place(msgspec.Struct):
    """A place that explore found."""

    path: str
    why: str
    lines: str = ""


class Explored(msgspec.Struct):
    """What explore answers."""

    summary: str
    files: list[Place]


class Issue(msgspec.Struct):
    """A problem that review found."""

    file: str
    line: int
    severity: Literal["critical", "high", "medium", "low"]
    category: Literal["security", "quality", "performance"]
    problem: str
    suggestion: str


class Reviewed(msgspec.Struct):
    """What review answers."""

    summary: str
    problems: list[Issue]


class Scenario(msgspec.Struct):
    """A test."""

    name: str
    kind: Literal["normal", "boundary", "error"]


class Tested(msgspec.Struct):
    """What test answers."""

    summary: str
    files: list[str]
    command: str
    passed: int
    failed: int
    scenarios: list[Scenario]


class Documented(msgspec.Struct):
    """What doc answers."""

    summary: str
    file: str
    sections: list[str]


class Proposal(msgspec.Struct):
    """A step that refactor proposes."""

    id: int
    title: str
    file: str
    line: int
    why: str
    kind: str = ""


class Refactored(msgspec.Struct):
    """What refactor answers."""

    summary: str
    proposals: list[Proposal]
    applied: list[int]


FORMS: dict[str, type[msgspec.Struct]] = {
    "explore": Explored,
    "review": Reviewed,
    "test": Tested,
    "doc": Documented,
    "refactor": Refactored,
}


def read_answer(form: str | Form, text: str) -> msgspec.Struct:
    """Read the block for programs at the end of an answer.

    Args:
        form: Name of the form, or one that a file describes (``Definition.form``).
        text: The answer.

    Raises:
        ValueError: There is none, or it is not of this form; says what would be right.
    """
    blocks = re.findall(r"^```json[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    if not blocks:
        keys = ", ".join(field.encode_name for field in msgspec.structs.fields(_type(form)))
        raise ValueError(
            f"The answer has no ```json block at its end; one with {keys} belongs there."
        )
    try:
        return msgspec.json.decode(blocks[-1], type=_type(form))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"The ```json block at the end is not as it must be: {error}.") from None


def _type(form: str | Form) -> type[msgspec.Struct]:
    if isinstance(form, str):
        return FORMS[form]
    return make_type(form)


def check(
    form: str | Form, messages: Sequence[Message], workspace: Workspace, *, by_user: bool = True
) -> str:
    """Return what is wrong with an answer; empty if nothing is. Blocks.

    Args:
        form: Name of the form, or one that a file describes.
        messages: The whole conversation, without what trims took from it; its last message is the
            answer.
        workspace: Where the files are.
        by_user: Whether it was the user who prompted the agent.
    """
    message = messages[-1]
    if not isinstance(message, AssistantMessage) or message.stop in ("length", "refusal"):
        return ""
    try:
        answer = read_answer(form, message.text)
    except ValueError as error:
        return str(error)
    facts = _Facts(messages, workspace, may_act=by_user and confirmed(messages, _proposes))
    found = list(
        _CHECKS[form](answer, facts) if isinstance(form, str) else wrong_places(answer, facts.place)
    )
    return "\n".join(found[:MOST_OBJECTIONS])


def judge_call(
    form: str, messages: Sequence[Message], tool: Tool, *, by_user: bool = True
) -> Verdict | None:
    """Refuse what changes something as long as the user has not confirmed a proposal.

    Only refactor proposes.

    Args:
        form: Name of the form.
        messages: The whole conversation, without what trims took from it.
        tool: The tool that is called.
        by_user: Whether it was the user who prompted the agent: no agent says yes for him.
    """
    if form != "refactor" or tool.risk == "read" or (by_user and confirmed(messages, _proposes)):
        return None
    return deny(
        f"{tool.name} changes or runs something, and no proposal is confirmed yet: propose, and let"
        " the user decide."
    )


def _proposes(message: AssistantMessage) -> bool:
    try:
        answer = read_answer("refactor", message.text)
    except ValueError:
        return False
    return isinstance(answer, Refactored) and bool(answer.proposals)


def _start(messages: Sequence[Message]) -> int:
    """Index of the message that began the last run."""
    return next(
        (n for n in range(len(messages) - 1, -1, -1) if isinstance(messages[n], UserMessage)), 0
    )


class _Facts:
    """What a run did, and what the workspace holds."""

    def __init__(self, messages: Sequence[Message], workspace: Workspace, *, may_act: bool) -> None:
        self.messages = messages
        self.workspace = workspace
        self.may_act = may_act
        self.text = messages[-1].text if isinstance(messages[-1], AssistantMessage) else ""
        run = messages[_start(messages) :]
        calls = {
            call.id: call
            for each in run
            if isinstance(each, AssistantMessage)
            for call in each.calls
        }
        results = [
            result for each in run if isinstance(each, ToolMessage) for result in each.results
        ]
        self.done: list[tuple[ToolCall, ToolResult]] = [
            (calls[result.call_id], result) for result in results if result.call_id in calls
        ]

    def written(self) -> dict[str, int]:
        """The files that were written in the run, and at which call last."""
        names = ("write_file", "edit_file", "multi_edit")
        found = {}
        for number, (call, result) in enumerate(self.done):
            if call.name in names and not result.code:
                found[self.name(_argument(call, "path"))] = number
        return found

    def commands(self) -> list[tuple[int, str, ToolResult]]:
        """The commands that ran to an end: number of the call, the command, its result."""
        return [
            (number, _argument(call, "command"), result)
            for number, (call, result) in enumerate(self.done)
            if call.name == "run_terminal_cmd" and result.data.get("exit_code") is not None
        ]

    def name(self, path: str) -> str:
        """A path as it is called from the root of the workspace."""
        try:
            return self.workspace.relative(self.workspace.resolve(path))
        except ToolError:
            return path

    def lines(self, path: str) -> int | None:
        """How many lines a file has; ``None`` where there is none that can be read."""
        text = self.read(path)
        if text is None:
            return None
        return text.count("\n") + (not text.endswith("\n"))

    def read(self, path: str) -> str | None:
        """The text of a file."""
        try:
            file = self.workspace.resolve(path)
            if file.is_file() and file.stat().st_size <= MOST_BYTES:
                return file.read_text(errors="replace")
            return None
        except (ToolError, OSError):
            return None

    def place(self, path: str, *lines: int) -> str:
        """What is wrong with a place in a file; empty if nothing is."""
        count = self.lines(path)
        if count is None:
            return f"There is no file {path!r} in the workspace."
        bad = next((line for line in lines if not 1 <= line <= max(count, 1)), None)
        if bad is None:
            return ""
        return f"{path} has {count} lines; there is no line {bad}."


def _argument(call: ToolCall, name: str) -> str:
    try:
        given = json.loads(call.arguments or "{}")
    except ValueError:
        return ""
    value = given.get(name) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""


def _explored(answer: Explored, facts: _Facts) -> Iterator[str]:
    for place in answer.files:
        lines = [int(number) for number in re.findall(r"\d{1,9}", place.lines)[:2]]
        wrong = facts.place(place.path, *lines)
        if wrong:
            yield wrong
    snippets = re.findall(r"^```(?!json)[^\n]*\n.*?^```", facts.text, re.DOTALL | re.MULTILINE)
    if answer.files and not snippets:
        yield (
            "The answer shows no code: give the lines of the places that matter in fenced code"
            " blocks."
        )
    if not answer.summary.strip():
        yield "The summary is empty: say what was found, or where you looked."


def _reviewed(answer: Reviewed, facts: _Facts) -> Iterator[str]:
    for issue in answer.problems:
        wrong = facts.place(issue.file, issue.line)
        if wrong:
            yield wrong
        if not issue.suggestion.strip():
            yield f"The problem in {issue.file}, line {issue.line} has no suggestion."
    if not any(
        call.name in ("read_file", "search_files") and not result.code
        for call, result in facts.done
    ):
        before = [each for each in facts.messages if isinstance(each, ToolMessage)]
        if not before:
            yield "Nothing was read: read the code before you judge it."


def _tested(answer: Tested, facts: _Facts) -> Iterator[str]:
    kinds = {scenario.kind for scenario in answer.scenarios}
    missing = [kind for kind in ("normal", "boundary", "error") if kind not in kinds]
    if missing:
        yield f"There is no scenario of the kind {' or '.join(missing)}: test it, too."
    named = {scenario.name.strip() for scenario in answer.scenarios} - {""}
    if len(named) < 3:
        yield f"There are {len(named)} scenarios with a name of their own; at least 3 belong there."
    written = facts.written()
    if not answer.files:
        yield "No test file is named: write the tests to a file."
    for file in answer.files:
        if facts.lines(file) is None:
            yield f"There is no file {file!r} in the workspace."
        elif facts.name(file) not in written:
            yield f"{file} was not written in this run."
    sources = [facts.read(file) or "" for file in answer.files]
    for scenario in answer.scenarios:
        if sources and not any(
            scenario.name.split("[")[0].rpartition("::")[2] in source for source in sources
        ):
            yield f"The test {scenario.name!r} does not stand in {', '.join(answer.files)}."
    yield from _ran(answer, facts, max(written.values(), default=-1))


def _ran(answer: Tested, facts: _Facts, last_write: int) -> Iterator[str]:
    """Return whether the tests ran as they are now, and what came of it is what is told."""
    after = [
        (command, result) for number, command, result in facts.commands() if number > last_write
    ]
    if not after:
        yield "The tests did not run after they were last changed: run them."
        return
    mine = [
        (command, result) for command, result in after if command.strip() == answer.command.strip()
    ]
    if not mine:
        yield (
            f"The command {answer.command!r} did not run after the last change; this did:"
            f" {after[-1][0]!r}."
        )
        return
    failed = mine[-1][1].data.get("exit_code") != 0
    if failed and answer.failed == 0:
        yield "The command failed when it ran last, and the answer says that nothing failed."
    if answer.passed + answer.failed == 0:
        yield "By the answer no test ran."
    for word, told in (("passed", answer.passed), ("failed", answer.failed)):
        # As pytest, cargo, jest and many others end; of several lines like that the last one is the
        # sum.
        printed = re.findall(rf"\b(\d{{1,9}}) {word}\b", mine[-1][1].text)
        if printed and int(printed[-1]) != told:
            yield f"By the answer {told} {word}; the last run printed: {printed[-1]} {word}."


def _documented(answer: Documented, facts: _Facts) -> Iterator[str]:
    text = facts.read(answer.file)
    if text is None:
        yield f"There is no file {answer.file!r} in the workspace: write it."
        return
    if facts.name(answer.file) not in facts.written():
        yield f"{answer.file} was not written in this run."
    if not answer.file.rpartition("/")[2].casefold().startswith("readme"):
        return
    headings = [line.strip("# \t") for line in _outside_code(text) if re.match(r"#{1,4}\s", line)]
    for name, words in _SECTIONS:
        if not any(
            re.search(rf"(?<![A-Za-z])(?:{words})", heading, re.IGNORECASE) for heading in headings
        ):
            yield f"{answer.file} has no heading for {name}."


def _outside_code(text: str) -> Iterator[str]:
    inside = False
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            inside = not inside
        elif not inside:
            yield line


def _refactored(answer: Refactored, facts: _Facts) -> Iterator[str]:
    for proposal in answer.proposals:
        wrong = facts.place(proposal.file, proposal.line)
        if wrong:
            yield wrong
    changed = bool(facts.written()) or any(
        call.name == "delete_file" and not result.code for call, result in facts.done
    )
    if not facts.may_act:
        if answer.applied:
            yield "Nothing is confirmed yet, so nothing can be applied: propose."
        return
    if answer.applied and not changed:
        yield "By the answer something was applied, and no file was changed in this run."
    if changed and not answer.applied:
        yield "Files were changed, and applied is empty: say which proposals were done."
    if changed and not facts.commands():
        yield (
            "Nothing was run after the changes: run the tests, or a check of the code where there"
            " are none."
        )


_CHECKS: dict[str, Callable[..., Iterator[str]]] = {
    "explore": _explored,
    "review": _reviewed,
    "test": _tested,
    "doc": _documented,
    "refactor": _refactored,
}
