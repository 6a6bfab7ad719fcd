"""``hilum demo``: watch hilum find, fix and verify a real bug.

The model is recorded; everything else is real.
"""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from hilum import remove_folder
from hilum.command import Parser, check_text

from hilum_cli import exits
from hilum_cli.options import run_async
from hilum_cli.run_options import RunOptions
from hilum_cli.terminal import Out, is_terminal

if TYPE_CHECKING:
    from hilum_cli.headless import Headless

PROMPT = (
    "The second line of the example in the README comes out negative: nimbus gets -21.50 h instead"
    " of 2.50 h. Find out why, fix it, and make sure that all tests pass."
)
TESTS = "python3 -m unittest -q"
PLUGINS = ("files", "shell", "prompt", "models", "store", "guard")
HERE = Path(__file__).parent
CASSETTE = HERE / "demo.toml"
EXPECTED = HERE / "demo.diff"
INTRO = """\
hilum demo: hilum fixes a real bug in a small time-sheet program.
The model's answers are a recording played over HTTP; the program, the edits, the commands and \
the tests are real.
"""
LIVE = """\
With a live model, in your own project:
  export OPENAI_API_KEY=…    (or the key of another provider, or start Ollama)
  hilum run "find out why the total is wrong, and fix it"
"""


def main(argv: list[str]) -> int:
    """Watch a recorded run find, fix and verify a real bug, offline.

    Returns:
        The exit code: 0 only if the tests failed before and pass after the expected change.
    """
    check_text(argv)
    parser = Parser(
        "hilum demo",
        "Watch a recorded run find, fix and verify a real bug. No key or network is needed.",
    )
    parser.add_argument("--fast", action="store_true", help="skip the pauses of a thinking model")
    parser.add_argument(
        "--keep", action="store_true", help="keep the program's folder and print its path"
    )
    options = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="hilum-demo-"))
    try:
        return _play(folder, options)
    finally:
        if not options.keep:
            remove_folder(folder)


def _play(folder: Path, options: Namespace) -> int:
    from hilum_cli import headless, starting

    project = copy_project(folder / "tally")
    err = Out(2)
    err.say(f"{INTRO}\n> {PROMPT}\n")
    face = starting.make_face("text", quiet=False)
    work = headless.Headless(run_options(project, folder), face)
    pace = 0.0 if options.fast or not is_terminal(2) else 1.0
    with ExitStack() as stack:
        # Registered first, so this callback runs last, even if the run raises an exception.
        stack.callback(face.close)
        # Output printed by plugins must not corrupt standard output.
        stack.enter_context(redirect_stdout(sys.stderr))
        code = run_async(serve_and_work, work, pace)
    if work.end is None or work.stopping.signal:
        return code
    change = diff(project)
    err.say(_report(work, change))
    if options.keep:
        err.say(f"The program is in {project}")
    err.say(f"\n{LIVE}")
    wrong = verdict([card.code for card in face.view.cards if TESTS in card.call.arguments], change)
    if wrong:
        err.say(f"hilum: the demo did not go as recorded: {wrong}.")
        return code or exits.FAILED
    return code


def _report(work: Headless, change: str) -> str:
    """Return a summary of the changes, the usage and the session."""
    view = work.face.view
    usage = view.totals.usage
    seconds = work.end.seconds if work.end else 0.0
    rows = [
        f"\nWhat changed:\n\n{change}" if change else "\nNothing changed.",
        f"{len(view.cards)} tool calls, {usage.input} + {usage.output} tokens, {seconds:.1f} s.",
    ]
    if work.session:
        rows.append(f"The session was saved: hilum sessions show {work.session}")
    return "\n".join(rows)


async def serve_and_work(work: Headless, pace: float) -> int:
    """Serve the cassette on the loopback interface, where hilum uses it like any provider."""
    import hilum_replay  # this module imports trio, which --help does not need

    # Compare only the structure, because the output of tests and listings differs between Python
    # versions.
    async with hilum_replay.serve(
        hilum_replay.load(CASSETTE), mode="shape", pace=pace, workspace=work.options.workspace
    ) as server:
        work.options.settings["models.providers"] = {
            "recorded": {"base_url": f"{server.url}/v1", "api": "chat"}
        }
        return await work.main()


def run_options(project: Path, folder: Path) -> RunOptions:
    """Return the options of the run.

    The options are those of ``hilum run``, unaffected by the user's settings.
    """
    # The recorded commands use python3, which must be the interpreter that runs hilum.
    os.environ["PATH"] = os.pathsep.join(
        (os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))
    )
    # The folder contains no settings, so that the demo runs the same on every machine.
    os.environ["HILUM_CONFIG"] = str(folder / "config")
    # The session is stored with the user's other sessions; the user's settings do not affect the
    # demo.
    environ = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("HILUM_") or key == "HILUM_DATA"
    }
    return RunOptions(
        workspace=str(project.resolve()),
        prompt=PROMPT,
        model="recorded/demo",
        approve="auto",
        plugins=PLUGINS,
        environ=environ | {"HILUM_CONFIG": str(folder / "config")},
    )


def copy_project(target: Path) -> Path:
    """Copy the demo program.

    The program's modules are stored as text files, so that no tool mistakes them for part of hilum.
    """
    for path in sorted((HERE / "demo_project").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(HERE / "demo_project")
            goal = target / (name.with_suffix("") if name.suffix == ".txt" else name)
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, goal)
    return target


def diff(project: Path) -> str:
    """Return the changes to the program as a unified diff."""
    with tempfile.TemporaryDirectory() as folder:
        before = copy_project(Path(folder) / "before")
        names = {
            p.relative_to(root) for root in (before, project) for p in root.rglob("*") if _counts(p)
        }
        return "".join(_diff(before, project, name) for name in sorted(names))


def _counts(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def _diff(before: Path, after: Path, name: Path) -> str:
    def lines(root: Path) -> list[str]:
        path = root / name
        if path.exists():
            return path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        return []

    return "".join(difflib.unified_diff(lines(before), lines(after), f"a/{name}", f"b/{name}"))


def verdict(codes: Sequence[str], change: str) -> str:
    """Return a description of an unexpected outcome; empty if the demo succeeded.

    Args:
        codes: Error codes from the test runs, in order.
        change: The change as a unified diff.
    """
    if len(codes) < 2 or not codes[0]:
        return "the tests did not fail before the change"
    if codes[-1]:
        return "the tests do not pass after the change"
    if change != EXPECTED.read_text(encoding="utf-8"):
        return "the change differs from the recorded one"
    return ""
