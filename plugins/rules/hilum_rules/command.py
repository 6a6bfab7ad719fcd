"""``hilum rules``: what is read here, which of it is enforced, and why.

And whether a file is read as it is meant.
"""

from __future__ import annotations

import argparse
import os
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hilum import SettingsError, UsageError, config_folder
from hilum.errors import E_BAD_ARGS, E_NOT_FOUND
from hilum_commandline import Parser, say, say_json

from hilum_rules.rule import Mode, Problem, Rule, RulesFile

if TYPE_CHECKING:
    from hilum_rules.current import Snapshot

ACTIONS = ("list", "show", "check")
ABOUT = """\
Show the rules that hold in this folder, numbered as the model reads them: file
and line, whether the system enforces it or it is advice to the model, and why.

  hilum rules                   all rules, and what was not read
  hilum rules show 2.5          one rule in full
  hilum rules check AGENTS.md   what a file gives, and what of it is not read
"""
_PLAYS = {
    Mode.ALWAYS: "",
    Mode.AUTO: "for files like {globs}",
    Mode.AGENT: "when the model asks for it",
    Mode.MANUAL: "when you name it: @{name}",
}


def main(argv: Sequence[str]) -> int:
    """Show the rules that hold here, and which of them are enforced.

    Returns:
        The exit code: 1 if a file that is checked has problems.
    """
    parser = Parser("hilum rules", ABOUT)
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=ACTIONS,
        metavar="ACTION",
        help=", ".join(ACTIONS),
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="",
        metavar="N|FILE",
        help="for show: a number; for check: a file",
    )
    parser.add_argument("--workspace", "-C", default=".", metavar="DIR", help="another folder")
    parser.add_argument(
        "--kind",
        default="main",
        metavar="KIND",
        help="as in a session of this kind: main, shared, headless",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    try:
        options = parser.parse_intermixed_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    if bool(options.what) == (options.action == "list"):
        takes = {"list": "nothing", "show": "the number of a rule: 2.5", "check": "a file"}[
            options.action
        ]
        raise UsageError(
            f"hilum rules {options.action} takes {takes}.",
            code=E_BAD_ARGS,
            hint="See hilum rules --help.",
        )
    if options.action == "check":
        return _check(options)
    snapshot = _snapshot(options)
    if options.action == "list":
        say_json(_data(snapshot)) if options.json else _print(_list(snapshot))
        return 0
    found = next(
        ((file, rule) for number, file, rule in snapshot.numbered() if number == options.what), None
    )
    if found is None:
        raise UsageError(
            f"There is no rule {options.what}.", code=E_NOT_FOUND, hint="hilum rules lists them."
        )
    say_json(_rule(options.what, *found)) if options.json else _print(_show(options.what, *found))
    return 0


def _snapshot(options: argparse.Namespace) -> Snapshot:
    from hilum_settings import App

    from hilum_rules.current import Current
    from hilum_rules.places import where
    from hilum_rules.settings import RulesSettings

    folder = Path(os.path.realpath(os.path.expanduser(options.workspace)))
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder {options.workspace}.", hint="Name an existing folder."
        )
    app = App(
        "hilum",
        error=SettingsError,
        hint="hilum config shows all settings and where they come from.",
    )
    settings = app.load([RulesSettings], workspace=folder, known=None).get(RulesSettings)
    current = Current(where(folder, config_folder()), settings, options.kind)
    current.refresh(force=True)
    return current.snapshot


def _list(snapshot: Snapshot) -> Iterator[str]:
    count = enforced = 0
    for file in snapshot.files:
        if not file.rules:
            continue
        number = snapshot.numbers[file.path]
        yield from ("", *_wrapped(f"{number}. {file.path} ({_about(file)})", "", "   "))
        for index, rule in enumerate(file.rules, 1):
            count = count + 1
            enforced = enforced + (rule.check is not None)
            yield from _row(f"{number}.{index}", rule)
    if not count:
        yield from _wrapped(
            "There are no rules here. Write AGENTS.md, or see docs/rules.md for the files that are"
            " read."
        )
    else:
        told = "Nested folders add theirs when a file in them is first used."
        yield from (
            "",
            *_wrapped(
                f"{_many(count, 'rule')}, {enforced} enforced, {count - enforced} advice. {told}"
            ),
        )
    yield from _problems(snapshot.problems)


def _row(number: str, rule: Rule) -> Iterator[str]:
    state = "enforced" if rule.check is not None else "advice"
    yield from _wrapped(f"  {number}  {rule.path}:{rule.line}  {state}", "", "       ")
    yield from _wrapped(rule.sentence, "       ", "       ", most=3)
    why = rule.why.removeprefix(state).lstrip(": ")
    if why:
        yield from _wrapped(f"({why})", "       ", "        ")


def _show(number: str, file: RulesFile, rule: Rule) -> Iterator[str]:
    yield from _row(number, rule)
    yield from _wrapped(
        f"Id: {rule.id}. Type: {rule.type.replace('_', ' ')}. Section: {rule.section or 'none'}.",
        "",
        "  ",
    )
    yield from _wrapped(f"File: {file.path} ({_about(file)}).", "", "  ")
    for line in rule.enforce:
        yield from _wrapped(f"{rule.path}:{line.line}  enforce: {line.text}", "", "  ")
    yield from (
        "",
        *(
            f"  {line}"
            for line in "\n".join([*([rule.lead] if rule.lead else []), rule.content]).split("\n")
        ),
    )


def _check(options: argparse.Namespace) -> int:
    from hilum_rules.loading import load_rules

    path = Path(options.workspace).expanduser() / Path(options.what).expanduser()
    file = load_rules(path)
    if options.json:
        rules = [_rule(f"1.{index}", file, rule) for index, rule in enumerate(file.rules, 1)]
        data = {
            "file": _file(1, file),
            "rules": rules,
            "problems": [_problem(problem) for problem in file.problems],
        }
        say_json(data)
    else:
        lines = _wrapped(
            f"{file.path}: {_many(len(file.rules), 'rule')} ({_about(file)})", "", "  "
        )
        rows = [
            line for index, rule in enumerate(file.rules, 1) for line in _row(f"1.{index}", rule)
        ]
        _print([*lines, *rows, *_problems(file.problems)])
    return 1 if file.problems else 0


def _problems(problems: Sequence[Problem]) -> Iterator[str]:
    if problems:
        yield from ("", "Not read as it may be meant, or worth knowing:")
    for problem in problems:
        yield from _wrapped(str(problem), "  ", "    ")


def _about(file: RulesFile) -> str:
    whose = {"user": "yours", "settings": "from your settings", "project": "the project's"}[
        file.origin
    ]
    plays = _PLAYS[file.mode].format(globs=", ".join(file.globs[:5]), name=file.name)
    scope = f"for {file.folder}/" if file.folder.parts else ""
    return ", ".join(part for part in (whose, scope, plays) if part)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


# --- as data --------------------------------------------------------------------------------------


def _data(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "source_hash": snapshot.bundle.source_hash,
        "files": [_file(snapshot.numbers.get(file.path, 0), file) for file in snapshot.files],
        "rules": [_rule(number, file, rule) for number, file, rule in snapshot.numbered()],
        "problems": [_problem(problem) for problem in snapshot.problems],
    }


def _file(number: int, file: RulesFile) -> dict[str, Any]:
    return {
        "number": number,
        "path": file.path,
        "dialect": file.dialect,
        "origin": file.origin,
        "folder": str(file.folder),
        "mode": file.mode.value,
        "globs": list(file.globs),
        "description": file.description,
        "rules": len(file.rules),
        "sources": [str(path) for path in file.sources],
    }


def _rule(number: str, file: RulesFile, rule: Rule) -> dict[str, Any]:
    return {
        "number": number,
        "id": rule.id,
        "type": rule.type.value,
        "section": rule.section,
        "content": rule.content,
        "lead": rule.lead,
        "path": rule.path,
        "line": rule.line,
        "file": file.path,
        "enforced": rule.check is not None,
        "why": rule.why,
        "enforce": [line.text for line in rule.enforce],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "path": problem.path,
        "line": problem.line,
        "message": problem.message,
        "fatal": problem.fatal,
    }


# --- on the terminal ------------------------------------------------------------------------------


def _print(lines: Iterable[str]) -> None:
    say("\n".join(lines).replace("\t", "    "))


def _wrapped(text: str, first: str = "", rest: str = "", most: int = 0) -> list[str]:
    """Fold a text to the terminal's width, 80 columns at most.

    With ``most`` lines the rest is cut off.
    """
    width = min(shutil.get_terminal_size().columns, 80) or 80
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    if wide:  # letters that take two columns: fold as if all of them did
        width = max(width * len(text) // (len(text) + wide), 20)
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        replace_whitespace=True,
    )
    if most and len(lines) > most:
        lines[most - 1 :] = [f"{lines[most - 1][: width - 4]} ..."]
    return lines or [first.rstrip()]
