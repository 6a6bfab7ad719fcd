"""The options of a conversation, and the parser for its command line."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import hilum
from hilum import UsageError
from hilum.command import Parser, add_session_options, check_folder, check_text
from hilum.errors import E_BAD_ARGS

LAST = "last"
CHOOSE = "choose"
"""The value of ``--resume`` without an id."""
EPILOG = """\
  hilum                          start a conversation in this folder
  hilum "fix the failing test"   start with this prompt
  hilum -c                       continue the last conversation in this folder
  hilum --resume                 choose the conversation to continue from a list
  hilum --resume ID              continue this one

Inside, ? shows the keys and /help the commands. hilum run works on one task and exits.
"""
# All session ids begin with a date.
_ID = re.compile(r"\d[\w-]*")


@attrs.define
class ChatOptions:
    """The options of a conversation.

    Attributes:
        workspace: The folder to work in.
        prompt: The first prompt; empty for none.
        resume: Id of the session to resume; ``last`` for the last one in the folder, empty for a
            new one.
        mode: Mode of the session; None for the configured one.
        model: Model as ``provider/name``; empty for the configured one.
        approve: Approval policy; None for the configured one.
        plain: Whether to only append lines, without redrawing, colors or single keys.
        settings: Settings, by dotted key.
        environ: Environment to read settings from.
        plugins: Names of the plugins to load; None for all installed plugins.
        plugin: Files and folders of additional plugins to load.
        no_plugin: Names of plugins not to load.
    """

    workspace: str = "."
    prompt: str = ""
    resume: str = ""
    mode: str | None = None
    model: str = ""
    approve: str | None = None
    plain: bool = False
    settings: dict[str, Any] = attrs.field(factory=dict)
    environ: Mapping[str, str] = attrs.field(factory=lambda: os.environ)
    plugins: Sequence[object] | None = None
    plugin: Sequence[str] = ()
    no_plugin: Sequence[str] = ()


def parse_options(argv: Sequence[str]) -> ChatOptions:
    """Read the command line.

    Raises:
        UsageError: The command line is invalid.
    """
    check_text(argv)
    parsed = _make_parser().parse_intermixed_args(list(argv))
    words = list(parsed.words)
    resume = _read_resume(parsed, words)
    settings = dict(map(hilum.parse_pair, parsed.set))
    if parsed.max_turns is not None:
        settings["turns"] = parsed.max_turns
    return ChatOptions(
        workspace=check_folder(parsed.workspace),
        prompt=" ".join(words).strip(),
        resume=resume,
        mode=parsed.mode,
        model=parsed.model,
        approve=parsed.approve,
        plain=parsed.plain,
        settings=settings,
        plugins=parsed.plugins,
        plugin=parsed.plugin,
        no_plugin=parsed.no_plugin,
    )


def _read_resume(parsed: Namespace, words: list[str]) -> str:
    """Return the session to resume; move a prompt that argparse mistook for an id to ``words``.

    Raises:
        UsageError: The options contradict each other.
    """
    resume = str(parsed.resume)
    if parsed.last:
        if resume not in ("", LAST, CHOOSE):
            raise UsageError(
                "--continue and --resume ID cannot be combined.",
                code=E_BAD_ARGS,
                hint="Remove one of them: --continue resumes the last session in the folder.",
            )
        return LAST
    if resume == CHOOSE:
        # The words of the command line are the prompt for the session that the user chooses.
        if words:
            return LAST
        words.append("/resume")
        return ""
    if resume in ("", LAST) or _ID.fullmatch(resume):
        return resume
    words.insert(0, resume)
    return LAST


def _make_parser() -> Parser:
    parser = Parser("hilum", "Work with the agent in a conversation.", EPILOG)
    add = parser.add_argument
    add("words", nargs="*", metavar="PROMPT", help="the first prompt")
    add("--continue", "-c", dest="last", action="store_true", help="continue the last session")
    add(
        "--resume",
        nargs="?",
        const=CHOOSE,
        default="",
        metavar="ID",
        help="resume a session; without an ID and a prompt, choose it from a list",
    )
    add("--model", default="", metavar="PROVIDER/NAME", help="model to use")
    add("--mode", default=None, help="agent (does the task), ask, plan, debug")
    add(
        "--approve",
        default=None,
        choices=("ask_first", "auto", "readonly"),
        help="calls that change something: ask, allow or deny",
    )
    add("--max-turns", type=_positive, default=None, metavar="N", help="turns that a run may take")
    add(
        "--plain",
        action="store_true",
        help="only append lines: for screen readers and simple terminals",
    )
    add(
        "--workspace",
        "-C",
        default=".",
        metavar="DIR",
        help="folder to work in (default: the current one)",
    )
    add_session_options(parser, only=True)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number
