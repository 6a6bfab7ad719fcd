"""Parses agents' structured answers, and checks them against the run's files and calls.

Each built-in agent has an answer form; a user's agent may name one of these forms or define its
own. The answer ends with a machine-readable block. Errors in the block are sent back to the model.
After three objections, the kernel accepts the answer and marks it as partial.
"""

from __future__ import annotations

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
    Verdict,
    Workspace,
    deny,
)

from hilum_agents.arguments import parse_arguments
from hilum_agents.consent import confirmed, last_request
from hilum_agents.forms import Form, make_type, wrong_places

# Maximum size, in bytes, of a file that is read to check line numbers. Larger files are unlikely to
# be source code.
MAX_BYTES = 5_000_000
# Maximum number of objections to report at once; more would distract the model. The model receives
# the remaining objections after it has corrected these.
MAX_OBJECTIONS = 6
# Minimum number of tests in an answer: one for each kind of scenario.
MIN_TESTS = 3
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
    """A code location found by the agent ``explore``."""

    path: str
    why: str
    lines: str = ""


class Explored(msgspec.Struct):
    """An answer from the agent ``explore``."""

    summary: str
    files: list[Place]


class Issue(msgspec.Struct):
    """A problem found by the agent ``review``."""

    file: str
    line: int
    severity: Literal["critical", "high", "medium", "low"]
    category: Literal["security", "quality", "performance"]
    problem: str
    suggestion: str


class Reviewed(msgspec.Struct):
    """An answer from the agent ``review``."""

    summary: str
    problems: list[Issue]


class Scenario(msgspec.Struct):
    """A test written by the agent ``test``."""

    name: str
    kind: Literal["normal", "boundary", "error"]


class Tested(msgspec.Struct):
    """An answer from the agent ``test``."""

    summary: str
    files: list[str]
    command: str
    passed: int
    failed: int
    scenarios: list[Scenario]


class Documented(msgspec.Struct):
    """An answer from the agent ``doc``."""

    summary: str
    file: str
    sections: list[str]


class RefactoringStep(msgspec.Struct):
    """A step proposed by the agent ``refactor``."""

    id: int
    title: str
    file: str
    line: int
    why: str
    kind: str = ""


class Refactored(msgspec.Struct):
    """An answer from the agent ``refactor``."""

    summary: str
    proposals: list[RefactoringStep]
    applied: list[int]


FORMS: dict[str, type[msgspec.Struct]] = {
    "explore": Explored,
    "review": Reviewed,
    "test": Tested,
    "doc": Documented,
    "refactor": Refactored,
}


def read_answer(form: str | Form, text: str) -> msgspec.Struct:
    """Parse the machine-readable block at the end of an answer.

    Args:
        form: Name of a form, or a form defined in an agent's file (``Definition.form``).
        text: The answer.

    Raises:
        ValueError: The block is missing, or does not match the answer form.
    """
    kind = FORMS[form] if isinstance(form, str) else make_type(form)
    # The last block counts, because an answer may quote other JSON before that block.
    blocks = re.findall(r"^```json[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    if not blocks:
        keys = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))
        raise ValueError(
            f"The answer has no ```json block at its end; add one with the keys {keys}."
        )
    try:
        return msgspec.json.decode(blocks[-1], type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"The ```json block at the end is invalid: {error}.") from None


def check(
    form: str | Form,
    messages: Sequence[Message],
    workspace: Workspace,
    *,
    by_user: bool = True,
) -> str:
    """Return the problems with an answer; empty if there are none. Blocks.

    Args:
        form: Name of a form, or a form defined in an agent's file.
        messages: The complete conversation, without compaction; its last message is the answer.
        workspace: The workspace of the run.
        by_user: Whether the user, rather than another agent, prompted the agent.
    """
    message = messages[-1]
    # An answer that was cut off or refused has no block, and requesting a block would not help.
    if not isinstance(message, AssistantMessage) or message.stop in ("length", "refusal"):
        return ""
    try:
        answer = read_answer(form, message.text)
    except ValueError as error:
        return str(error)
    may_change = by_user and confirmed(messages, _proposes)
    run = _Run(messages, workspace, may_change=may_change)
    if isinstance(form, str):
        found = list(_CHECKS[form](answer, run))
    else:
        found = list(wrong_places(answer, run.check_place))
    return "\n".join(found[:MAX_OBJECTIONS])


def judge_call(
    form: str,
    messages: Sequence[Message],
    tool: Tool,
    *,
    by_user: bool = True,
) -> Verdict | None:
    """Return a denial for a change that the user has not confirmed, as ``refactor`` requires.

    Args:
        form: Name of the form.
        messages: The complete conversation, without compaction.
        tool: The called tool.
        by_user: Whether the user, rather than another agent, prompted the agent. Another agent
            cannot consent for the user.
    """
    if form != "refactor" or tool.risk == "read":
        return None
    if by_user and confirmed(messages, _proposes):
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


class _Run:
    """The calls of a run and the files in its workspace.

    Attributes:
        messages: The complete conversation.
        text: The answer.
        may_change: Whether the user has confirmed a proposal.
        done: The finished calls with their results.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        workspace: Workspace,
        *,
        may_change: bool,
    ) -> None:
        self._workspace = workspace
        self.messages = messages
        self.may_change = may_change
        answer = messages[-1]
        self.text = answer.text if isinstance(answer, AssistantMessage) else ""
        self.done: list[tuple[ToolCall, ToolResult]] = []
        calls: dict[str, ToolCall] = {}
        # Only the current run counts: a file that an earlier run wrote may have changed since.
        for message in messages[last_request(messages) :]:
            if isinstance(message, AssistantMessage):
                calls.update({call.id: call for call in message.calls})
            elif isinstance(message, ToolMessage):
                known = [result for result in message.results if result.call_id in calls]
                self.done += [(calls[result.call_id], result) for result in known]

    def succeeded(self, *tools: str) -> bool:
        """Return whether a call to any of the given tools succeeded."""
        return any(call.name in tools and not result.code for call, result in self.done)

    def written(self) -> dict[str, int]:
        """Return the written files, each with the index of the last call that wrote it."""
        found = {}
        for number, (call, result) in enumerate(self.done):
            if call.name in ("write_file", "edit_file", "multi_edit") and not result.code:
                found[self.relative(_argument(call, "path"))] = number
        return found

    def commands(self) -> list[tuple[int, str, ToolResult]]:
        """Return the finished commands, each as call index, command line and result."""
        return [
            (number, _argument(call, "command"), result)
            for number, (call, result) in enumerate(self.done)
            if call.name == "run_terminal_cmd" and result.data.get("exit_code") is not None
        ]

    def relative(self, path: str) -> str:
        """Return a path relative to the root of the workspace."""
        try:
            return self._workspace.relative(self._workspace.resolve(path))
        # The path is outside the workspace; `check_place` reports it.
        except ToolError:
            return path

    def read(self, path: str) -> str | None:
        """Return the text of a file, or ``None`` if it cannot be read."""
        try:
            file = self._workspace.resolve(path)
            if file.is_file() and file.stat().st_size <= MAX_BYTES:
                return file.read_text(errors="replace")
        except (ToolError, OSError):
            pass
        return None

    def check_place(self, path: str, *lines: int) -> Iterator[str]:
        """Yield a problem if a file, or one of the given lines in it, does not exist."""
        text = self.read(path)
        if text is None:
            yield f"There is no file {path!r} in the workspace."
            return
        # The last line may end without a newline.
        count = text.count("\n") + (not text.endswith("\n"))
        for line in lines:
            if not 1 <= line <= max(count, 1):
                yield f"{path} has {count} lines; there is no line {line}."
                return


def _argument(call: ToolCall, name: str) -> str:
    """Return an argument of a call; empty if the argument is missing or not a string."""
    value = parse_arguments(call.arguments).get(name)
    return value if isinstance(value, str) else ""


# --- checks of the forms --------------------------------------------------------------------------


def _check_explored(answer: Explored, run: _Run) -> Iterator[str]:
    for place in answer.files:
        numbers = re.findall(r"\d{1,9}", place.lines)
        yield from run.check_place(place.path, *map(int, numbers[:2]))
    snippets = re.findall(r"^```(?!json)[^\n]*\n.*?^```", run.text, re.DOTALL | re.MULTILINE)
    if answer.files and not snippets:
        yield "The answer shows no code: quote the lines that matter in fenced code blocks."
    if not answer.summary.strip():
        yield "The summary is empty: summarize your findings, or where you looked."


def _check_reviewed(answer: Reviewed, run: _Run) -> Iterator[str]:
    for issue in answer.problems:
        yield from run.check_place(issue.file, issue.line)
        if not issue.suggestion.strip():
            yield f"The problem in {issue.file}, line {issue.line} has no suggestion."
    # The agent may have read the code in an earlier run of this conversation.
    has_results = any(isinstance(message, ToolMessage) for message in run.messages)
    if not has_results and not run.succeeded("read_file", "search_files"):
        yield "Nothing was read: read the code before you judge it."


def _check_tested(answer: Tested, run: _Run) -> Iterator[str]:
    yield from _check_scenarios(answer)
    if not answer.files:
        yield "No test file is named: write the tests to a file."
    written = run.written()
    sources = {file: run.read(file) for file in answer.files}
    for file, source in sources.items():
        if source is None:
            yield f"There is no file {file!r} in the workspace."
        elif run.relative(file) not in written:
            yield f"{file} was not written in this run."
    whole = "\n".join(source or "" for source in sources.values())
    for scenario in answer.scenarios:
        # pytest's notation for a test is `file.py::test_name[parameter]`.
        name = scenario.name.split("[")[0].rpartition("::")[2]
        if sources and name not in whole:
            yield f"The test {scenario.name!r} is not in {', '.join(answer.files)}."
    yield from _check_test_run(answer, run, max(written.values(), default=-1))


def _check_scenarios(answer: Tested) -> Iterator[str]:
    kinds = {scenario.kind for scenario in answer.scenarios}
    missing = [kind for kind in ("normal", "boundary", "error") if kind not in kinds]
    if missing:
        yield f"There is no scenario of the kind {' or '.join(missing)}: add one."
    names = {scenario.name.strip() for scenario in answer.scenarios} - {""}
    if len(names) < MIN_TESTS:
        yield f"There are {len(names)} different scenarios; at least {MIN_TESTS} are needed."


def _check_test_run(answer: Tested, run: _Run, last_write: int) -> Iterator[str]:
    """Yield the problems with the last test run and with the answer's claims about it."""
    named = answer.command.strip()
    last_command = ""
    last_result: ToolResult | None = None
    for number, command, result in run.commands():
        if number > last_write:
            last_command = command
            if command.strip() == named:
                last_result = result
    if not last_command:
        yield "The tests were not run after their last change: run them."
    elif last_result is None:
        # The user must be able to repeat the test run with the command that the answer names.
        yield (
            f"The command {answer.command!r} was not run after the last change; this one was:"
            f" {last_command!r}."
        )
    else:
        yield from _check_counts(answer, last_result)


def _check_counts(answer: Tested, result: ToolResult) -> Iterator[str]:
    if result.data.get("exit_code") != 0 and answer.failed == 0:
        yield "The last run of the command failed, but the answer says that no test failed."
    if answer.passed + answer.failed == 0:
        yield "According to the answer, no test ran."
    for word, count in (("passed", answer.passed), ("failed", answer.failed)):
        # pytest, cargo, jest and many other tools print summaries in this format. If several lines
        # match, the last line contains the total.
        printed = re.findall(rf"\b(\d{{1,9}}) {word}\b", result.text)
        if printed and int(printed[-1]) != count:
            yield f"The answer says {count} {word}, but the last run printed {printed[-1]} {word}."


def _check_documented(answer: Documented, run: _Run) -> Iterator[str]:
    text = run.read(answer.file)
    if text is None:
        yield f"There is no file {answer.file!r} in the workspace: write it."
        return
    if run.relative(answer.file) not in run.written():
        yield f"{answer.file} was not written in this run."
    # Only a README has sections that readers expect.
    if not answer.file.rpartition("/")[2].casefold().startswith("readme"):
        return
    headings = [line.strip("# \t") for line in _outside_code(text) if re.match(r"#{1,4}\s", line)]
    for name, words in _SECTIONS:
        pattern = re.compile(rf"(?<![A-Za-z])(?:{words})", re.IGNORECASE)
        if not any(pattern.search(heading) for heading in headings):
            yield f"{answer.file} has no heading for {name}."


def _outside_code(text: str) -> Iterator[str]:
    inside = False
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            inside = not inside
        elif not inside:
            yield line


def _check_refactored(answer: Refactored, run: _Run) -> Iterator[str]:
    for step in answer.proposals:
        yield from run.check_place(step.file, step.line)
    if run.may_change:
        yield from _check_applied(answer, run)
    elif answer.applied:
        yield "No proposal is confirmed yet, so none can be applied: propose first."


def _check_applied(answer: Refactored, run: _Run) -> Iterator[str]:
    has_changed = bool(run.written()) or run.succeeded("delete_file")
    if not has_changed:
        if answer.applied:
            yield "The answer says that proposals were applied, but this run changed no file."
        return
    if not answer.applied:
        yield "Files were changed, but `applied` is empty: list the proposals that were applied."
    if not run.commands():
        yield "Nothing was run after the changes: run the tests, or check the code another way."


_CHECKS: dict[str, Callable[..., Iterator[str]]] = {
    "explore": _check_explored,
    "review": _check_reviewed,
    "test": _check_tested,
    "doc": _check_documented,
    "refactor": _check_refactored,
}
