"""``hilum run``: work on a task and exit."""

from __future__ import annotations

import gc
import os
import re
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum import UsageError
from hilum.errors import E_BAD_ARGS
from hilum_commandline import Parser

from hilum_cli import exits
from hilum_cli.options import check_folder, check_text, read_prompt

if TYPE_CHECKING:
    from hilum_cli.faces import Face

LAST = "last"
EPILOG = (
    """\
The prompt is what stands on the command line; what is piped in is added to it, or is the prompt if there is none.

  hilum run "fix the failing test"
  git diff | hilum run "review this change" --mode ask
  hilum run --resume                go on with what was cut off in the last session of this folder
  hilum run --resume "and now …"    say more in that session
  hilum run --resume --accept       carry out the plan that it ended with

"""
    + exits.HELP
)
# What --resume takes for an id: all ids begin with a date.
_ID = re.compile(r"\d[\w-]*")


def main(argv: list[str]) -> int:
    """Run the command; gives its exit code (see ``exits``)."""
    from hilum import HilumError

    # Collecting garbage while modules are loaded finds none and costs 15 ms until the first request.
    gc.set_threshold(100_000, 20, 20)
    options = None
    try:
        options = parse(argv)
        options.prompt = read_prompt(options.words)
        if options.accept and not options.resume:
            hint = "hilum run --resume --accept carries out the plan of the last session of this folder."
            raise UsageError("--accept is for the plan of an earlier session.", code=E_BAD_ARGS, hint=hint)
        if not options.prompt and not options.resume:
            hint = 'Say what to do: hilum run "fix the failing test".'
            raise UsageError("There is no prompt.", code=E_BAD_ARGS, hint=hint)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    except HilumError as error:
        make_face(options.output_format if options else _wanted_format(argv), quiet=True).failed(error)
        return error.exit_code
    from hilum_cli.headless import run

    return run(options, make_face(options.output_format, options.quiet))


def parse(argv: Sequence[str]) -> Namespace:
    """Read the command line.

    Raises:
        UsageError: It is wrong.
    """
    check_text(argv)
    options = make_parser().parse_intermixed_args(argv)
    if options.resume and options.resume != LAST and not _ID.fullmatch(options.resume):
        options.words.insert(0, options.resume)
        options.resume = LAST
    if options.cassette and options.model:
        raise UsageError("--cassette and --model exclude each other.", code=E_BAD_ARGS, hint="Leave one out.")
    if options.cassette:
        options.model = f"cassette/{os.path.abspath(os.path.expanduser(options.cassette))}"
    options.workspace = check_folder(options.workspace)
    if options.state:
        from hilum_context import load_state

        options.state = load_state(options.state)
    options.settings = {}
    if options.set:
        from hilum import parse_pair

        options.settings = dict(map(parse_pair, options.set))
    options.environ = os.environ
    names = [[part.strip() for part in text.split(",") if part.strip()] for text in options.plugins or ()]
    options.plugins = [name for part in names for name in part] if options.plugins is not None else None
    return options


def make_parser() -> Parser:
    """Declare the options."""
    parser = Parser(prog="hilum run", description="Work on a task and exit.", epilog=EPILOG)
    add = parser.add_argument
    add("words", nargs="*", metavar="PROMPT", help="what to do; - reads it from standard input")
    add("--model", default="", metavar="PROVIDER/NAME", help="model to ask, for example openai/gpt-5")
    add("--mode", default=None, help="agent (does the task), ask, plan, debug")
    add(
        "--approve",
        default=None,
        choices=("ask_first", "auto", "readonly"),
        help="calls that change something: ask (refused where nobody can be asked), let run, or refuse",
    )
    add(
        "--resume",
        nargs="?",
        const=LAST,
        default="",
        metavar="ID",
        help="go on with a session; the last one without an ID",
    )
    add("--accept", action="store_true", help="with --resume: carry out the plan that waits, or PROMPT as the plan")
    add(
        "--output-format",
        default="text",
        choices=("text", "json", "stream-json"),
        help="the answer; one object at the end; or one event per line",
    )
    add("--workspace", "-C", default=".", metavar="DIR", help="folder to work in (default: the current one)")
    add("--state", default="", metavar="FILE", help="what your editor shows, as JSON (see the page on context)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="set any setting; may be repeated")
    add("--plugins", action="append", default=None, metavar="A,B", help="load these plugins only")
    add("--no-plugin", action="append", default=[], metavar="NAME", help="leave a plugin out; may be repeated")
    add("--cassette", default="", metavar="FILE", help="let a recorded session answer in place of a model")
    add("--record", default="", metavar="FILE", help="record the session to a cassette as it goes")
    add("--quiet", "-q", action="store_true", help="show no progress")
    return parser  # fmt: skip


def _wanted_format(argv: Sequence[str]) -> str:
    """Guess the output format of a command line that does not parse, so that its error has it, too."""
    found = re.search(r"--output-format[= ](json|stream-json)\b", " ".join(argv))
    return found[1] if found else "text"


def make_face(output_format: str, quiet: bool) -> Face:
    """Choose the face: by format, and by whether standard error is a terminal that can move its cursor."""
    from hilum_cli.faces import JsonFace, PlainFace, StreamFace, TextFace
    from hilum_cli.terminal import is_terminal

    if output_format == "json":
        return JsonFace()
    if output_format == "stream-json":
        return StreamFace()
    if quiet:
        return TextFace()
    if is_terminal(2) and os.environ.get("TERM", "dumb") != "dumb":
        from hilum_cli.live import LiveFace

        return LiveFace()
    return PlainFace()
