"""``hilum run``: parses the command line of a run and starts it."""

from __future__ import annotations

import functools
import os
import re
from argparse import Namespace
from collections.abc import Sequence

import attrs
import hilum
from hilum import HilumError, UsageError
from hilum.command import Parser, add_session_options, check_folder, check_text
from hilum.errors import E_BAD_ARGS

from hilum_cli import exits, signals
from hilum_cli.options import read_prompt
from hilum_cli.run_options import RunOptions

LAST = "last"
EPILOG = (
    """\
The prompt is the text on the command line. Piped input is added to it as data, or is the prompt \
if there is no other.
Commands (/…) and agent calls (@…) work only in text that you type.

  hilum run "fix the failing test"
  git diff | hilum run "review this change" --mode ask
  hilum run --resume                continue the interrupted run of the last session in this folder
  hilum run -c "and now …"          send another prompt in that session
  hilum run --resume --accept       carry out the plan that it ended with

"""
    + exits.HELP
)
# --resume treats a word that matches this pattern as an id, because all ids begin with a date.
_ID = re.compile(r"\d[\w-]*")


def main(argv: list[str]) -> int:
    """Work on a task and exit: hilum run "fix the failing test".

    Returns:
        The exit code (see ``exits``).
    """
    # Start with a rough guess of the format, because a signal may arrive while ``re`` compiles the
    # pattern that finds the exact one.
    signals.end_before_run(json=any("json" in word for word in argv if len(word) < 40))
    output_format = _wanted_format(argv)
    signals.end_before_run(json=output_format != "text")
    options = None
    try:
        options = parse(argv)
        given = read_prompt(options.words)
        options.prompt = given.text
        options.attached = given.attached
        options.piped = given.piped
        check_task(options)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    except HilumError as error:
        from hilum_cli import starting

        starting.show_failure(error, options.output_format if options else output_format)
        return error.exit_code
    return _start(options)


def _start(options: Namespace) -> int:
    """Run the command, which loads the kernel."""
    from hilum_cli import headless, starting

    face = starting.make_face(
        options.output_format,
        options.quiet,
        raw=options.raw,
        include_prompt=options.include_prompt,
    )
    # Options that only the face uses are not included.
    given = {field.name: getattr(options, field.name) for field in attrs.fields(RunOptions)}
    return headless.run(RunOptions(**given), face)


def check_task(options: Namespace) -> None:
    """Check that the command line names something to do.

    Raises:
        UsageError: There is neither a prompt nor a session to resume.
    """
    if options.accept and not options.resume:
        hint = (
            "hilum run --resume --accept carries out the plan of the last session in this folder."
        )
        raise UsageError(
            "--accept needs the plan of an earlier session.", code=E_BAD_ARGS, hint=hint
        )
    if options.images and (options.accept or not options.prompt):
        raise UsageError(
            "--image needs a prompt that says what to do with the image.",
            code=E_BAD_ARGS,
            hint='For example: hilum run "what is wrong on this page?" --image page.png',
        )
    if not options.prompt and not options.resume:
        hint = 'Say what to do: hilum run "fix the failing test".'
        raise UsageError("There is no prompt.", code=E_BAD_ARGS, hint=hint)


def parse(argv: Sequence[str]) -> Namespace:
    """Read the command line.

    Raises:
        UsageError: The command line is invalid.
    """
    check_text(argv)
    options = make_parser().parse_intermixed_args(argv)
    _read_continue(options)
    is_id = options.resume in ("", LAST) or _ID.fullmatch(options.resume)
    has_prompt = any(" " in word for word in options.words) and " " not in options.resume
    if not is_id and (has_prompt or f"--resume={options.resume}" in argv):
        raise UsageError(
            f"There is no session {options.resume!r}.",
            code=E_BAD_ARGS,
            hint="`hilum sessions list` shows the ids of the sessions.",
        )
    if not is_id:
        # ``hilum run --resume "and now …"``: argparse mistakes the prompt for the id.
        options.words.insert(0, options.resume)
        options.resume = LAST
    if options.cassette and options.model:
        raise UsageError(
            "--cassette and --model cannot be combined.",
            code=E_BAD_ARGS,
            hint="Remove one of them.",
        )
    if options.cassette:
        options.model = f"cassette/{os.path.abspath(os.path.expanduser(options.cassette))}"
    options.workspace = check_folder(options.workspace)
    if options.state:
        from hilum_context import load_state

        options.state = load_state(options.state)
    options.images = [hilum.read_image(path) for path in options.image]
    options.settings = {}
    if options.set:
        options.settings = dict(map(hilum.parse_pair, options.set))
    if options.keep_services:
        options.settings["shell.keep_services"] = True
    if options.max_turns is not None:
        options.settings["turns"] = _check_turns(options.max_turns)
    options.environ = os.environ
    return options


def _read_continue(options: Namespace) -> None:
    """Make ``--continue`` resume the last session in the folder.

    Raises:
        UsageError: The command line also names another session.
    """
    if not options.continue_last:
        return
    if options.resume not in ("", LAST):
        raise UsageError(
            "--continue and --resume ID cannot be combined.",
            code=E_BAD_ARGS,
            hint="--continue resumes the last session in the folder, --resume ID any session.",
        )
    options.resume = LAST


def _check_turns(turns: int) -> int:
    """Return the maximum number of turns.

    Raises:
        UsageError: The number is less than one.
    """
    if turns < 1:
        raise UsageError(
            f"--max-turns must be at least 1, not {turns}.",
            code=E_BAD_ARGS,
            hint="Each turn is one model call.",
        )
    return turns


@functools.cache
def make_parser() -> Parser:
    """Declare the options. A process of the fork server has the parser already."""
    parser = Parser("hilum run", "Work on a task and exit.", EPILOG, foreign=True)
    _add_task_options(parser)
    _add_session_options(parser)
    _add_output_options(parser)
    return parser


def _add_task_options(parser: Parser) -> None:
    """Declare the prompt, and how the agent works on it."""
    add = parser.add_argument
    add("words", nargs="*", metavar="PROMPT", help="what to do; - reads it from standard input")
    add(
        "--model",
        default="",
        metavar="PROVIDER/NAME",
        help="model to use, for example openai/gpt-5",
    )
    add(
        "--image",
        "-i",
        action="append",
        default=[],
        metavar="FILE",
        help="an image for the model (PNG, JPEG, GIF or WebP); may be repeated",
    )
    add("--mode", default=None, help="agent (does the task), ask, plan, debug")
    add(
        "--approve",
        default=None,
        choices=("ask_first", "auto", "readonly"),
        help=("calls that change something: ask (denied if nobody can be asked), allow or deny"),
    )
    add(
        "--resume",
        nargs="?",
        const=LAST,
        default="",
        metavar="ID",
        help="resume a session; without an ID, the last one",
    )
    add(
        "--continue",
        "-c",
        dest="continue_last",
        action="store_true",
        help="resume the last session in this folder; the same as --resume without an ID",
    )
    add(
        "--accept",
        action="store_true",
        help="with --resume: carry out the plan that awaits a decision, or PROMPT instead of it",
    )


def _add_session_options(parser: Parser) -> None:
    """Declare the limits, the folder, the kind and the recording of the session."""
    add = parser.add_argument
    add(
        "--output-format",
        default="text",
        choices=("text", "json", "stream-json"),
        help=(
            "the answer; one JSON object at the end; or one per event, then the same object"
            " (docs/output.md)"
        ),
    )
    add(
        "--max-turns",
        type=int,
        default=None,
        metavar="N",
        help="maximum number of model calls (the setting turns)",
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
        help="the state of your editor as JSON (see the page on context)",
    )
    add_session_options(parser, only=True)
    add(
        "--kind",
        default="",
        choices=("main", "shared", "headless"),
        help=(
            "kind of the session, which rules may name: shared if others read it; headless"
            " if nobody can be asked"
        ),
    )
    add(
        "--keep-services",
        action="store_true",
        help="at the end, wait for background commands until they end or you press Ctrl-C",
    )
    add(
        "--cassette",
        default="",
        metavar="FILE",
        help="use the answers of a recorded session instead of a model",
    )
    add("--record", default="", metavar="FILE", help="record the session to a cassette")


def _add_output_options(parser: Parser) -> None:
    """Declare what is written beside the answer."""
    add = parser.add_argument
    add("--quiet", "-q", action="store_true", help="show no progress")
    add(
        "--print",
        "-p",
        action="store_true",
        help="changes nothing: hilum run always writes the answer and exits",
    )
    add(
        "--raw",
        action="store_true",
        help="write the model's text unchanged, including control sequences for the terminal",
    )
    add(
        "--include-prompt",
        action="store_true",
        help="with stream-json: the system prompt, tools and context in full",
    )


def _wanted_format(argv: Sequence[str]) -> str:
    """Guess the output format of a command line that cannot be parsed.

    The error is then written in that format.
    """
    found = re.findall(r"--output-format[= ](text|json|stream-json)(?= |$)", " ".join(argv))
    return str(found[-1]) if found else "text"
