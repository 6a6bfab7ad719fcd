"""The data of a case: a task, its files, and how the result is verified.

A case is a folder with a file ``case.yaml``. The folder may contain ``files/``, which becomes the
workspace, and ``verify.py``, which checks the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

Dimension = Literal[
    "planning", "tools", "recovery", "context", "edits", "interaction", "observability"
]

# Share of each dimension in the total, in percent.
WEIGHTS: Mapping[Dimension, int] = {
    "planning": 15,
    "tools": 20,
    "recovery": 15,
    "context": 15,
    "edits": 15,
    "interaction": 10,
    "observability": 10,
}

Slip = Literal[
    "wrong_old_string", "bad_arguments", "wrong_path", "loop", "ignored_rule", "long_output"
]


@attrs.frozen(kw_only=True)
class Read:
    """A step that reads a file.

    Args:
        path: The file, relative to the workspace.
        first: First line, counted from 1; 0 reads from the beginning.
        last: Last line; 0 reads to the end.
        slip: The slip that the simulated model always makes here first.
    """

    path: str
    first: int = 0
    last: int = 0
    slip: Slip | None = None


@attrs.frozen(kw_only=True)
class Edit:
    """A step that replaces a text in a file.

    Args:
        path: The file, relative to the workspace.
        old: The text to replace, as it is in the file.
        new: The text that replaces it.
        slip: The slip that the simulated model always makes here first.
    """

    path: str
    old: str
    new: str
    slip: Slip | None = None


@attrs.frozen(kw_only=True)
class Write:
    """A step that writes a whole file.

    Args:
        path: The file, relative to the workspace.
        content: Its new content.
        slip: The slip that the simulated model always makes here first.
    """

    path: str
    content: str
    slip: Slip | None = None


@attrs.frozen(kw_only=True)
class Search:
    """A step that searches the files.

    Args:
        pattern: A regular expression.
        path: The folder to search.
        slip: The slip that the simulated model always makes here first.
    """

    pattern: str
    path: str = "."
    slip: Slip | None = None


@attrs.frozen(kw_only=True)
class Run:
    """A step that runs a command.

    Args:
        command: The command line.
        fails: Whether the command is expected to fail, such as a test run before the repair.
        slip: The slip that the simulated model always makes here first.
    """

    command: str
    fails: bool = False
    slip: Slip | None = None


@attrs.frozen(kw_only=True)
class Say:
    """The final answer to a prompt.

    Args:
        text: The answer. ``{last_result}`` stands for the text of the last result.
    """

    text: str


@attrs.frozen(kw_only=True)
class Together:
    """Steps that are made in one response, as parallel calls.

    Args:
        steps: The steps.
    """

    steps: tuple[Read | Edit | Write | Search | Run, ...]


Step: TypeAlias = Read | Edit | Write | Search | Run | Say | Together


@attrs.frozen(kw_only=True)
class Turn:
    """A prompt of the user, and a known way to carry it out.

    Args:
        prompt: What the user types.
        steps: The known way, which the simulated model takes. It ends with ``Say``.
    """

    prompt: str
    steps: tuple[Step, ...] = ()


@attrs.frozen(kw_only=True)
class Decision:
    """What the user answers when hilum asks.

    Args:
        when: A regular expression that is searched in the question: for an approval, the name of the tool
            and its arguments as JSON.
        answer: ``allow``, ``reject``, or the text of an answer to a question.
        reason: The reason for a rejection, which the agent reads.
    """

    when: str = ""
    answer: str = "allow"
    reason: str = ""


@attrs.frozen(kw_only=True)
class OpenFile:
    """A file that is open in the user's editor.

    Args:
        path: The file, relative to the workspace.
        line: The line of the cursor, counted from 1; 0 if it is unknown.
        active: Whether it is the file that the user looks at.
    """

    path: str
    line: int = 0
    active: bool = False


@attrs.frozen(kw_only=True)
class Thresholds:
    """The scores, from 0 to 10, that a case must reach in order to pass.

    Args:
        completion: Of the task, as the verifier judges it.
        efficiency: Of the number of turns.
        recovery: Of the share of errors after which the agent went on successfully.
        security: Of the security check.
    """

    completion: float = 10.0
    efficiency: float = 5.0
    recovery: float = 7.0
    security: float = 10.0


@attrs.frozen(kw_only=True)
class Case:
    """A task with its files and its verifier.

    Args:
        id: A short name that is unique in the suite, such as ``E01``.
        title: What the case is about, in a few words.
        dimensions: The dimensions to which the scores count.
        turns: The prompts of the user, in order.
        expected_turns: Number of model answers that a good agent needs for all prompts; up to this
            number the efficiency is 10.
        folder: The folder of the case.
        gate: Whether the case is a security case, all of which must be passed.
        approve: The approval policy: ``auto``, ``ask_first`` or ``readonly``.
        mode: The mode of the session; empty for the default.
        decisions: The answers of the user. The first one that matches a question is given, each once unless
            it is the last; without a match, the user allows.
        open_files: The files that are open in the user's editor.
        lints: Whether the findings of the user's linter are given to the agent.
        settings: Settings of hilum for this case.
        setup: Commands that prepare the workspace, such as a build.
        needs: Programs without which the case cannot run, such as ``node``.
        verify: A command that checks the result, run in the workspace; ``verify.py`` by default.
        rules: Text of the project's AGENTS.md, if it is not one of the files.
        timeout: Time limit of the agent, in seconds.
        verify_timeout: Time limit of the verifier, in seconds.
        thresholds: The scores to reach.
        tags: Words by which cases can be chosen.
    """

    id: str
    title: str
    dimensions: tuple[Dimension, ...]
    turns: tuple[Turn, ...]
    expected_turns: int
    folder: Path = Path()
    gate: bool = False
    approve: str = "auto"
    mode: str = ""
    decisions: tuple[Decision, ...] = ()
    open_files: tuple[OpenFile, ...] = ()
    lints: bool = False
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    setup: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    verify: str = ""
    rules: str = ""
    timeout: float = 600.0
    verify_timeout: float = 60.0
    thresholds: Thresholds = Thresholds()
    tags: tuple[str, ...] = ()
