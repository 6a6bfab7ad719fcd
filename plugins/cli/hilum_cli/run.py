"""``hilum run``: work on a task and exit."""

from __future__ import annotations

import gc
import os
import re
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
from hilum import UsageError
from hilum.errors import E_BAD_ARGS
from hilum_commandline import Names, Parser

from hilum_cli import exits, signals
from hilum_cli.options import check_folder, check_text, is_document, read_prompt

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
    """Work on a task and exit: hilum run "fix the failing test".

    Returns:
        The exit code (see ``exits``).
    """
    signals.end_before_run(json=any("json" in word for word in argv if len(word) < 40))
    output_format = _wanted_format(argv)
    signals.end_before_run(json=output_format != "text")
    from hilum import HilumError

    # Collecting garbage while modules are loaded finds none and costs 15 ms until the first
    # request.
    gc.set_threshold(100_000, 20, 20)
    options = None
    try:
        options = parse(argv)
        options.prompt = read_prompt(options.words)
        options.piped = is_document(options.words)
        if options.accept and not options.resume:
            hint = (
                "hilum run --resume --accept carries out the plan of the last session of this"
                " folder."
            )
            raise UsageError(
                "--accept is for the plan of an earlier session.", code=E_BAD_ARGS, hint=hint
            )
        if not options.prompt and not options.resume:
            hint = 'Say what to do: hilum run "fix the failing test".'
            raise UsageError("There is no prompt.", code=E_BAD_ARGS, hint=hint)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    except HilumError as error:
        from hilum_cli.result import failed_result

        face = make_face(options.output_format if options else output_format, quiet=True)
        face.failed(error)
        face.out.put(face.result(failed_result(error)))
        return error.exit_code
    from hilum_cli.headless import run
    from hilum_cli.run_options import RunOptions

    face = make_face(
        options.output_format,
        options.quiet,
        raw=options.raw,
        include_prompt=options.include_prompt,
    )
    # What is about the face is left out.
    told = {field.name: getattr(options, field.name) for field in attrs.fields(RunOptions)}
    return run(RunOptions(**told), face)


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
        raise UsageError(
            "--cassette and --model exclude each other.", code=E_BAD_ARGS, hint="Leave one out."
        )
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
    if options.keep_services:
        options.settings["shell.keep_services"] = True
    options.environ = os.environ
    return options


def make_parser() -> Parser:
    """Declare the options."""
    parser = Parser(prog="hilum run", description="Work on a task and exit.", epilog=EPILOG)
    add = parser.add_argument
    add("words", nargs="*", metavar="PROMPT", help="what to do; - reads it from standard input")
    add(
        "--model",
        default="",
        metavar="PROVIDER/NAME",
        help="model to ask, for example openai/gpt-5",
    )
    add("--mode", default=None, help="agent (does the task), ask, plan, debug")
    add(
        "--approve",
        default=None,
        choices=("ask_first", "auto", "readonly"),
        help=(
            "calls that change something: ask (refused where nobody can be asked), let run, or"
            " refuse"
        ),
    )
    add(
        "--resume",
        nargs="?",
        const=LAST,
        default="",
        metavar="ID",
        help="go on with a session; the last one without an ID",
    )
    add(
        "--accept",
        action="store_true",
        help="with --resume: carry out the plan that waits, or PROMPT as the plan",
    )
    add(
        "--output-format",
        default="text",
        choices=("text", "json", "stream-json"),
        help=(
            "the answer; one JSON object at the end; or one per event and the same at the end"
            " (docs/output.md)"
        ),
    )
    add(
        "--workspace",
        "-C",
        default=".",
        metavar="DIR",
        help="folder to work in (default: the current one)",
    )
    add(
        "--state",
        default="",
        metavar="FILE",
        help="what your editor shows, as JSON (see the page on context)",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set any setting; may be repeated",
    )
    add(
        "--plugins",
        action=Names,
        default=None,
        metavar="A,B",
        help="load these plugins only; may be repeated",
    )
    add(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="load a plugin from a file, too; may be repeated",
    )
    add(
        "--no-plugin",
        action=Names,
        default=[],
        metavar="A,B",
        help="leave these plugins out; may be repeated",
    )
    add(
        "--kind",
        default="",
        choices=("main", "shared", "headless"),
        help=(
            "kind of the session, which rules may name: shared where others read along; headless"
            " asks nobody"
        ),
    )
    add(
        "--keep-services",
        action="store_true",
        help="stay at the end, and keep what runs in the background until Ctrl-C or its own end",
    )
    add(
        "--cassette",
        default="",
        metavar="FILE",
        help="let a recorded session answer in place of a model",
    )
    add("--record", default="", metavar="FILE", help="record the session to a cassette as it goes")
    add("--quiet", "-q", action="store_true", help="show no progress")
    add(
        "--raw",
        action="store_true",
        help="write the model's text as it is, with what a terminal would obey",
    )
    add(
        "--include-prompt",
        action="store_true",
        help="with stream-json: the system prompt, tools and context in full",
    )
    return parser


def _wanted_format(argv: Sequence[str]) -> str:
    """Guess the output format of a command line that does not parse, so that its error has it,
    too.
    """
    found = re.findall(r"--output-format[= ](text|json|stream-json)(?= |$)", " ".join(argv))
    return str(found[-1]) if found else "text"


def make_face(
    output_format: str, quiet: bool, *, raw: bool = False, include_prompt: bool = False
) -> Face:
    """Create the face: by format, and by whether standard error is a terminal that can move its
    cursor.

    Args:
        output_format: text, json or stream-json.
        quiet: Whether to show no progress.
        raw: Whether the model's text is written as it is.
        include_prompt: Whether stream-json has the whole prompt.
    """
    from hilum_cli.faces import JsonFace, PlainFace, StreamFace, TextFace
    from hilum_cli.terminal import is_terminal

    if output_format == "json":
        return JsonFace()
    if output_format == "stream-json":
        return StreamFace(include_prompt=include_prompt)
    face: TextFace
    if quiet:
        face = TextFace()
    elif is_terminal(2) and os.environ.get("TERM", "dumb") != "dumb":
        from hilum_cli.live import LiveFace

        face = LiveFace()
    else:
        face = PlainFace()
    face.raw = raw
    return face
