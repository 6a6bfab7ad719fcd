"""``hilum demo``: watch hilum find, fix and verify a real bug, with a recorded model and everything
else real.
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
from typing import Any

from hilum_commandline import Parser

from hilum_cli import exits
from hilum_cli.options import check_text, run_command
from hilum_cli.run_options import RunOptions
from hilum_cli.terminal import Out, is_terminal

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
hilum demo: a small time-sheet program with a real bug, and hilum at work on it.
The model's answers are a recording, played over HTTP; the program, the edits, the commands and the tests are real.
"""
LIVE = """\
With a live model, in a project of yours:
  export OPENAI_API_KEY=…    (or the key of another provider, or start Ollama)
  hilum run "find out why the total is wrong, and fix it"
"""


def main(argv: list[str]) -> int:
    """Watch a recorded run find, fix and verify a real bug, offline.

    Returns:
        The exit code: 0 only if the tests failed before and pass after, by the expected change.
    """
    return run_command(lambda: _run(argv))


def _run(argv: Sequence[str]) -> int:
    check_text(argv)
    parser = Parser(
        "hilum demo",
        "Watch a recorded run find, fix and verify a real bug. Needs no key and no network.",
    )
    parser.add_argument(
        "--fast", action="store_true", help="without the pauses of a model that thinks"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the program's folder, and say where it is"
    )
    options = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="hilum-demo-"))
    try:
        return _play(folder, options)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _play(folder: Path, options: Namespace) -> int:
    import trio

    from hilum_cli.headless import Headless
    from hilum_cli.run import make_face

    project = copy_project(folder / "tally")
    err = Out(2)
    err.say(f"{INTRO}\n> {PROMPT}\n")
    face = make_face("text", quiet=False)
    work = Headless(run_options(project, folder), face)
    pace = 0.0 if options.fast or not is_terminal(2) else 1.0
    with ExitStack() as stack:
        stack.callback(face.close)
        stack.enter_context(redirect_stdout(sys.stderr))
        code = trio.run(serve_and_work, work, pace)
    if work.end is None or work.stopping.signal:
        return code
    change = diff(project)
    usage = face.progress.usage
    err.say(f"\nWhat changed:\n\n{change}" if change else "\nNothing changed.")
    err.say(
        f"{len(face.progress.calls)} tool calls, {usage.input} + {usage.output} tokens,"
        f" {work.end.seconds:.1f} s."
    )
    if work.session:
        err.say(f"The session is kept: hilum sessions show {work.session}")
    if options.keep:
        err.say(f"The program is in {project}")
    err.say(f"\n{LIVE}")
    wrong = verdict(
        [view.code for view in face.progress.calls.values() if TESTS in view.call.arguments], change
    )
    if wrong:
        err.say(f"hilum: the demo did not go as recorded: {wrong}.")
    return code or (exits.FAILED if wrong else exits.COMPLETED)


async def serve_and_work(work: Any, pace: float) -> int:
    """Play the cassette on the loopback interface and let hilum talk to it like to any provider."""
    from hilum_replay import load, serve

    # Only the shape is compared: what tests and listings print differs between versions of Python.
    async with serve(
        load(CASSETTE), mode="shape", pace=pace, workspace=work.options.workspace
    ) as server:
        work.options.settings["models.providers"] = {
            "recorded": {"base_url": f"{server.url}/v1", "api": "chat"}
        }
        code: int = await work.main()
        return code


def run_options(project: Path, folder: Path) -> RunOptions:
    """Return the options of the run: what ``hilum run`` would take, untouched by the user's
    settings.
    """
    # The commands of the recording say python3; it shall be the one that runs hilum.
    os.environ["PATH"] = os.pathsep.join(
        (os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))
    )
    os.environ["HILUM_CONFIG"] = str(folder / "config")
    # The session is kept where the user's sessions are; no other setting of the user's has an
    # effect on the demo.
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
    """Copy the program.

    Its modules are kept as text files, so that nothing takes them for part of hilum.
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
    """Return what went otherwise than it should; nothing if all is well.

    Args:
        codes: Error codes of the runs of the tests, in order.
        change: The diff.
    """
    if len(codes) < 2 or not codes[0]:
        return "the tests did not fail before the change"
    if codes[-1]:
        return "the tests do not pass after the change"
    if change != EXPECTED.read_text(encoding="utf-8"):
        return "the change is not the one that was recorded"
    return ""
