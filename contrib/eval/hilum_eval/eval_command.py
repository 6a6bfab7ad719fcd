"""The command ``hilum eval``: how good an agent is at a suite of cases."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from hilum import UsageError, data_folder
from hilum.command import Names, Parser, check_text, format_json
from hilum.errors import E_BAD_ARGS, unknown_name_error
from hilum_cli.terminal import Out, columns, is_terminal

from hilum_eval.arm import Arm
from hilum_eval.arm_reader import PROFILES, check_arm, read_arm
from hilum_eval.case import Case
from hilum_eval.case_reader import read_suite
from hilum_eval.comparison.installed import check_statistics
from hilum_eval.driver import Progress, measure
from hilum_eval.formats.options import add_options, prepare_suite, write_all_predictions
from hilum_eval.html_page import check_charts, make_page
from hilum_eval.jobs import make_jobs
from hilum_eval.measurement import open_results
from hilum_eval.progress import LiveProgress, PlainProgress
from hilum_eval.report import make_json, make_report
from hilum_eval.tables import render_cases, render_report

EPILOG = """\
Without --model and --arm, a simulated model makes the known steps of each case, so the command needs
neither a key nor a network; it then measures the agent's loop, tools, recovery and guards.

  hilum eval                               the built-in cases with the simulated model
  hilum eval E01 E07 --repeats 10          two cases, ten attempts each
  hilum eval --model openai/gpt-5          a live model, which costs money
  hilum eval --arm a.toml --arm b.toml     compare models, prompts, plugins or agents
  hilum eval --suite cases                 your own cases
  hilum eval init cases                    create an example of a case
  hilum eval check cases                   check your cases

exit codes:
  0    all gates are met
  1    a gate is not met, or an attempt is broken or missing
  2    usage error
  130  stopped by Ctrl-C
"""
_MAX_REPEATS = 10_000
_SUB_COMMANDS: dict[str, str] = {"init": "init_command", "check": "check_command"}


def main(argv: list[str]) -> int:
    """Measure an agent.

    Returns:
        The exit code.
    """
    check_text(argv)
    if argv and argv[0] in _SUB_COMMANDS:
        return _load_sub_command(argv[0])(argv[1:])
    options = make_parser().parse_args(argv)
    cases = choose_cases(options)
    out = Out(1)
    if options.list:
        out.say("\n".join(render_cases(cases)))
        return out.finish()
    arms = _read_arms(options)
    _check(options)
    return _measure(options, cases, arms, out)


def make_parser() -> Parser:
    """Declare the options."""
    parser = Parser("hilum eval", "Measure how good an agent is at a suite of cases.", EPILOG)
    add = parser.add_argument
    add("cases", nargs="*", metavar="CASE", help="ids of cases; all cases by default")
    add(
        "--suite", default="", metavar="DIR", help="a folder of cases in place of the built-in ones"
    )
    add_options(parser)
    add("--tag", action=Names, default=[], metavar="T", help="only cases with one of these tags")
    add("--list", action="store_true", help="list the cases")
    add(
        "--arm",
        action="append",
        default=[],
        metavar="FILE",
        help="a TOML file that describes an arm",
    )
    add("--model", default="", metavar="M", help="a live model, as provider/name")
    add(
        "--profile",
        default="",
        metavar="P",
        help="the simulated model: perfect, strong (default), mid, weak, or a file",
    )
    add("--repeats", type=int, default=1, metavar="N", help="attempts at each case (1)")
    add("--jobs", type=int, default=0, metavar="N", help="attempts at the same time (one per core)")
    add("--out", default="", metavar="DIR", help="the folder of the results")
    add("--resume", action="store_true", help="make only the attempts whose results are missing")
    add("--json", action="store_true", help="print the report as JSON")
    add("--html", default="", metavar="FILE", help="write the report as a web page with charts")
    add(
        "--fail-under",
        type=float,
        metavar="TOTAL",
        help="the minimum total, in place of the gates of the built-in cases",
    )
    add("--keep", default="", metavar="DIR", help="keep the workspaces in this folder")
    return parser


def choose_cases(options: Namespace) -> list[Case]:
    """Return the cases that the options name.

    Raises:
        UsageError: A case does not exist or has a mistake, or none is left.
    """
    suite = prepare_suite(options) or (Path(options.suite) if options.suite else None)
    cases = read_suite(suite)
    known = {case.id.lower(): case for case in cases}
    for name in options.cases:
        if name.lower() not in known:
            raise unknown_name_error("case", name, [case.id for case in cases])
    wanted = {name.lower() for name in options.cases} or set(known)
    chosen = [case for case in cases if case.id.lower() in wanted]
    if options.tag:
        chosen = [case for case in chosen if set(options.tag) & set(case.tags)]
    if not chosen:
        tags = sorted({tag for case in cases for tag in case.tags})
        raise UsageError(
            "No case has these tags.", code=E_BAD_ARGS, hint=f"Known tags: {', '.join(tags)}."
        )
    return chosen


def _read_arms(options: Namespace) -> list[Arm]:
    if options.arm:
        if options.model or options.profile:
            raise UsageError(
                "--arm cannot be combined with --model or --profile.",
                code=E_BAD_ARGS,
                hint="Write the model into the file of the arm.",
            )
        if len(options.arm) > 1:
            check_statistics()
        arms = [read_arm(Path(name)) for name in options.arm]
        names = [arm.name for arm in arms]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(
                f"Two arms have the name {twice[0]!r}.",
                code=E_BAD_ARGS,
                hint="Give each arm a name of its own.",
            )
        return arms
    profile = options.profile or "strong"
    if profile not in PROFILES and Path(profile).is_file():
        # Each attempt runs in a folder of its own.
        profile = str(Path(profile).absolute())
    return [check_arm(Arm(name="hilum", model=options.model, profile=profile), "--profile")]


def _check(options: Namespace) -> None:
    limits = (("--repeats", options.repeats, 1), ("--jobs", options.jobs, 0))
    for name, number, least in limits:
        if not least <= number <= _MAX_REPEATS:
            raise UsageError(
                f"{name} must be from {least} to {_MAX_REPEATS}.",
                code=E_BAD_ARGS,
                hint="Pass another number.",
            )
    if options.html:
        check_charts()
        _check_writable(Path(options.html))
    if options.fail_under is not None and not 0 <= options.fail_under <= 100:
        raise UsageError(
            "--fail-under must be from 0 to 100.", code=E_BAD_ARGS, hint="Pass a score."
        )


def _check_writable(path: Path) -> None:
    """Check that a page can be written, before hours are spent on a measurement.

    Raises:
        UsageError: It cannot be written.
    """
    existed = path.exists()
    try:
        # Opened for appending, so that an earlier page stays if the measurement fails.
        with path.open("ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}.",
            code=E_BAD_ARGS,
            hint="Pass another file: --html FILE.",
        ) from None


def _measure(options: Namespace, cases: Sequence[Case], arms: Sequence[Arm], out: Out) -> int:
    folder = _choose_folder(options)
    jobs = make_jobs(cases, arms, options.repeats)
    with open_results(folder, resume=options.resume) as results:
        outcome = measure(
            jobs,
            results,
            at_once=options.jobs or os.cpu_count() or 1,
            progress=_make_progress(),
            keep=Path(options.keep).resolve() if options.keep else None,
            # The clones contain later commits, also those that solve the instances.
            hidden=[Path(options.repos).resolve()] if options.swebench else [],
        )
        report = make_report(
            cases,
            arms,
            outcome,
            repeats=options.repeats,
            problems=results.problems,
            fail_under=options.fail_under,
        )
    if options.swebench:
        write_all_predictions(options, folder, arms, outcome.attempts)
    if options.json:
        out.put(format_json(make_json(report)).encode() + b"\n")
    else:
        lines = render_report(report, columns(1))
        out.say("\n".join([*lines, f"Results: {folder}"]))
    failure = out.finish()
    if options.html:
        # Last, so that a page that cannot be written costs nothing else.
        _write_page(Path(options.html), make_page(report))
    if outcome.signal:
        return 128 + outcome.signal
    return failure or int(not report.is_passed)


def _write_page(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        # The results are stored, so that nothing but the page is lost.
        raise UsageError(
            f"{path} cannot be written: {error.strerror}.",
            code=E_BAD_ARGS,
            hint="Run the command again with --resume and another file.",
        ) from None


def _choose_folder(options: Namespace) -> Path:
    if options.out:
        return Path(options.out)
    folders = data_folder() / "eval"
    if options.resume:
        earlier = sorted(path for path in folders.glob("*") if path.is_dir())
        if not earlier:
            raise UsageError(
                "There is no earlier measurement.", code=E_BAD_ARGS, hint="Leave out --resume."
            )
        return earlier[-1]
    name = time.strftime("%Y%m%d-%H%M%S")
    # Another measurement may have started in the same second.
    for ending in ("", *(f"-{number}" for number in range(2, 100))):
        folder = folders / f"{name}{ending}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError:
            return folder  # opening the results reports it
        return folder
    return folders / name


def _make_progress() -> Progress:
    err = Out(2)
    if is_terminal(2) and os.environ.get("TERM", "dumb") != "dumb":
        return LiveProgress(err, columns(2))
    return PlainProgress(err)


def _load_sub_command(name: str) -> Callable[[list[str]], int]:
    from importlib import import_module

    found: Callable[[list[str]], int] = import_module(f"hilum_eval.{_SUB_COMMANDS[name]}").main
    return found
