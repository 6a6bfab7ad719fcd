"""``hilum rules`` shows which rules are read, which of them are enforced, and why."""

from __future__ import annotations

import argparse
import os
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from hilum import UsageError
from hilum.command import Parser, say, say_json
from hilum.errors import E_BAD_ARGS, E_NOT_FOUND

from hilum_rules import open_store
from hilum_rules.rule import Mode, Problem, Rule, RulesFile
from hilum_rules.settings import RulesSettings

if TYPE_CHECKING:
    from hilum_rules.rule_store import Snapshot

ABOUT = """\
Show the rules that apply in this folder, numbered as the model sees them: file
and line, whether the system enforces it or it is advice to the model, and why.

  hilum rules                   list all rules, and what was not read
  hilum rules show 2.5          show one rule in full
  hilum rules check AGENTS.md   show the rules in a file, and what is not read
"""
MAX_WIDTH = 80
MAX_LINES = 3
"""Maximum number of lines to show per rule in a list."""
INDENT = " " * 7
# The actions, with the argument that each one takes.
_ACTIONS = {"list": "nothing", "show": "the number of a rule: 2.5", "check": "a file"}
_OWNERS = {"user": "yours", "settings": "from your settings", "project": "the project's"}
_MODES = {
    Mode.ALWAYS: "",
    Mode.AUTO: "for files like {globs}",
    Mode.AGENT: "when the model requests it",
    Mode.MANUAL: "when you name it: @{name}",
}


def main(argv: Sequence[str]) -> int:
    """Show which rules are read and enforced, and check a file of rules.

    Returns:
        The exit code: 1 if a checked file has problems.
    """
    try:
        options = _make_parser().parse_intermixed_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    if bool(options.what) == (options.action == "list"):
        raise UsageError(
            f"hilum rules {options.action} takes {_ACTIONS[options.action]}.",
            code=E_BAD_ARGS,
            hint="See hilum rules --help.",
        )
    if options.action == "check":
        return _run_check(options)
    snapshot = _read_snapshot(options)
    if options.action == "show":
        _run_show(options, snapshot)
    elif options.json:
        say_json(_snapshot_data(snapshot))
    else:
        _print(_list_rules(snapshot))
    return 0


def _make_parser() -> Parser:
    parser = Parser("hilum rules", ABOUT)
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=tuple(_ACTIONS),
        metavar="ACTION",
        help=", ".join(_ACTIONS),
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
    return parser


def _read_snapshot(options: argparse.Namespace) -> Snapshot:
    from hilum.settings import load

    folder = Path(os.path.realpath(os.path.expanduser(options.workspace)))
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder {options.workspace}.", hint="Choose an existing folder."
        )
    settings = load([RulesSettings], workspace=folder, known=None).get(RulesSettings)
    return open_store(folder, settings, options.kind).snapshot


# --- actions --------------------------------------------------------------------------------------


def _list_rules(snapshot: Snapshot) -> Iterator[str]:
    rules = [rule for file in snapshot.files for rule in file.rules]
    for file in snapshot.files:
        if file.rules:
            number = snapshot.numbers[file.path]
            yield ""
            head = f"{number}. {file.path} ({_describe_file(file)})"
            yield from _wrap(head, "", "   ")
            yield from _format_rules(number, file)
    if rules:
        enforced = sum(rule.check is not None for rule in rules)
        yield ""
        yield from _wrap(
            f"{_count(rules, 'rule')}, {enforced} enforced, {len(rules) - enforced} advice."
            " Nested folders add their rules when a file in them is first used."
        )
    else:
        yield from _wrap(
            "There are no rules here. Write AGENTS.md, or see docs/rules.md for the files that are"
            " read."
        )
    yield from _format_problems(snapshot.problems)


def _run_show(options: argparse.Namespace, snapshot: Snapshot) -> None:
    number = options.what
    for each, file, rule in snapshot.numbered():
        if each == number:
            if options.json:
                say_json(_rule_data(number, file, rule))
            else:
                _print(_show_rule(number, file, rule))
            return
    raise UsageError(
        f"There is no rule {number}.", code=E_NOT_FOUND, hint="hilum rules lists them."
    )


def _show_rule(number: str, file: RulesFile, rule: Rule) -> Iterator[str]:
    kind = rule.type.replace("_", " ")
    yield from _format_rule(number, rule)
    section = rule.section or "none"
    yield from _wrap(f"Id: {rule.id}. Type: {kind}. Section: {section}.", "", "  ")
    yield from _wrap(f"File: {file.path} ({_describe_file(file)}).", "", "  ")
    for check in rule.enforce:
        yield from _wrap(f"{rule.path}:{check.line}  enforce: {check.text}", "", "  ")
    yield ""
    text = f"{rule.lead}\n{rule.content}" if rule.lead else rule.content
    for line in text.split("\n"):
        yield f"  {line}"


def _run_check(options: argparse.Namespace) -> int:
    from hilum_rules.loading import load_rules

    file = load_rules(
        Path(os.path.expanduser(options.workspace)) / Path(os.path.expanduser(options.what))
    )
    if options.json:
        numbered = enumerate(file.rules, 1)
        say_json(
            {
                "file": _file_data(1, file),
                "rules": [_rule_data(f"1.{index}", file, rule) for index, rule in numbered],
                "problems": _problems_data(file.problems),
            }
        )
    else:
        head = f"{file.path}: {_count(file.rules, 'rule')} ({_describe_file(file)})"
        rules = _format_rules(1, file)
        _print([*_wrap(head, "", "  "), *rules, *_format_problems(file.problems)])
    return 1 if file.problems else 0


# --- as text --------------------------------------------------------------------------------------


def _format_rules(number: int, file: RulesFile) -> Iterator[str]:
    for index, rule in enumerate(file.rules, 1):
        yield from _format_rule(f"{number}.{index}", rule)


def _format_rule(number: str, rule: Rule) -> Iterator[str]:
    state = "enforced" if rule.check is not None else "advice"
    head = f"  {number}  {rule.path}:{rule.line}  {state}"
    yield from _wrap(head, "", INDENT)
    yield from _wrap(rule.sentence, INDENT, INDENT, MAX_LINES)
    reason = rule.why.removeprefix(state).lstrip(": ")
    if reason:
        yield from _wrap(f"({reason})", INDENT, f"{INDENT} ")


def _format_problems(problems: Sequence[Problem]) -> Iterator[str]:
    if problems:
        yield ""
        yield "Possibly not read as intended:"
    for problem in problems:
        yield from _wrap(str(problem), "  ", "    ")


def _describe_file(file: RulesFile) -> str:
    scope = f"for {file.folder}/" if file.folder.parts else ""
    globs = ", ".join(file.globs[:5])
    mode = _MODES[file.mode].format(globs=globs, name=file.name)
    return ", ".join(filter(None, (_OWNERS[file.origin], scope, mode)))


def _count(items: Sequence[object], what: str) -> str:
    return f"{len(items)} {what}{'s' * (len(items) != 1)}"


def _print(lines: Iterable[str]) -> None:
    say("\n".join(lines).replace("\t", "    "))


def _wrap(text: str, first: str = "", rest: str = "", most: int = 0) -> list[str]:
    """Return a text wrapped to the width of the terminal.

    Args:
        text: The text.
        first: The indent of the first line.
        rest: The indent of the other lines.
        most: The maximum number of lines; 0 for all.
    """
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH) or MAX_WIDTH
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    if wide:  # assume that double-width characters are evenly distributed
        width = max(width * len(text) // (len(text) + wide), 20)
    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    if most and len(lines) > most:
        last = lines[most - 1][: width - 4]
        lines = [*lines[: most - 1], f"{last} ..."]
    return lines or [first.rstrip()]


# --- as data --------------------------------------------------------------------------------------


def _snapshot_data(snapshot: Snapshot) -> dict[str, Any]:
    numbers = snapshot.numbers
    return {
        "source_hash": snapshot.bundle.source_hash,
        "files": [_file_data(numbers.get(file.path, 0), file) for file in snapshot.files],
        "rules": [_rule_data(number, file, rule) for number, file, rule in snapshot.numbered()],
        "problems": _problems_data(snapshot.problems),
    }


def _file_data(number: int, file: RulesFile) -> dict[str, Any]:
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


def _rule_data(number: str, file: RulesFile, rule: Rule) -> dict[str, Any]:
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


def _problems_data(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    return [msgspec.structs.asdict(problem) for problem in problems]
