"""``hilum hooks`` lists the hooks of Claude Code's settings files, and stores decisions about them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hilum import UsageError
from hilum.command import Parser, ask_line, say, say_json
from hilum.errors import E_BAD_ARGS, E_DENIED, E_NOT_FOUND

from hilum_hooks_claude import lazy

ABOUT = """\
List the hooks in ~/.claude/settings.json, .claude/settings.json and
.claude/settings.local.json: file, line, event, tools, command, and whether
they run.

  hilum hooks            list the hooks
  hilum hooks approve    look at the hooks of this project, and let them run
  hilum hooks refuse     never run the hooks of this project
"""
_ACTIONS = ("list", "approve", "refuse")


def main(argv: Sequence[str]) -> int:
    """List, approve or refuse the hooks that apply in a folder.

    Returns:
        The exit code: 1 if hooks of the project wait for approval, or a file has a mistake.
    """
    try:
        options = _make_parser().parse_intermixed_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    root = Path(os.path.realpath(os.path.expanduser(options.workspace)))
    if not root.is_dir():
        raise UsageError(
            f"There is no folder {options.workspace}.", hint="Choose an existing folder."
        )
    if options.action == "list":
        return _list(root, options)
    return _decide(root, options)


def _make_parser() -> Parser:
    parser = Parser("hilum hooks", ABOUT)
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=_ACTIONS,
        metavar="ACTION",
        help=", ".join(_ACTIONS),
    )
    parser.add_argument("--workspace", "-C", default=".", metavar="DIR", help="another folder")
    parser.add_argument("--json", action="store_true", help="list as JSON")
    parser.add_argument("--yes", action="store_true", help="approve what is shown, unasked")
    return parser


def _list(root: Path, options: argparse.Namespace) -> int:
    judged, mistakes = lazy.listing.read_hooks(root)
    if options.json:
        say_json(lazy.listing.describe_data(judged, mistakes))
    else:
        for row in lazy.listing.list_hooks(root):
            say(row)
    waiting = ("needs approval", "changed", "cannot be read")
    is_waiting = any(each.state in waiting for each in judged)
    return 1 if is_waiting or mistakes else 0


def _decide(root: Path, options: argparse.Namespace) -> int:
    approvals = lazy.approvals
    judged, _ = lazy.listing.read_hooks(root)
    states: tuple[str, ...] = ("needs approval", "changed", "refused")
    if options.action == "refuse":
        states = ("needs approval", "changed", "cannot be read", "runs")
    own = [each for each in judged if each.hook.source != "user" and each.state in states]
    if not own:
        raise UsageError(
            "No hook of this project waits for a decision.",
            code=E_NOT_FOUND,
            hint="`hilum hooks` lists them.",
        )
    if options.action == "refuse":
        approvals.refuse(root, own)
        say(f"Refused: {len(own)}. `hilum hooks approve` lets them run again.")
        return 0
    distrusted = [each.reason for each in own if each.is_distrusted]
    if distrusted:
        raise UsageError(
            f"The hooks of this project cannot run. {distrusted[0]}",
            code=E_DENIED,
            hint="Look at the project, and trust it with `hilum trust`; then approve its hooks.",
        )
    text = approvals.describe_request(own, root)
    if not options.yes and not _ask(text):
        say("Nothing was approved.")
        return 1
    if options.yes:
        say(text)
    if text != approvals.describe_request(own, root):
        raise UsageError("The files changed meanwhile, so nothing was approved.")
    approvals.approve(root, own)
    say(f"Approved: {len(own)}.")
    return 0


def _ask(text: str) -> bool:
    """Show a question on the terminal, and return whether the answer is yes.

    Raises:
        UsageError: There is no terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "Hooks are approved after a look at them, which needs a terminal.",
            code=E_BAD_ARGS,
            hint="Look at `hilum hooks`, then pass --yes.",
        )
    # The question quotes files of a repository.
    return ask_line(f"{text} [y/N] and Enter: ").lower() in ("y", "yes")
