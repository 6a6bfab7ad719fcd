"""``hilum rules`` shows which rules are read, which of them are enforced, and why."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from hilum import UsageError, load_command
from hilum.command import Parser, check_text, say_json
from hilum.errors import E_BAD_ARGS, E_NOT_FOUND
from hilum_checks.enforce_lines import SESSION_KINDS

from hilum_rules.counting import count
from hilum_rules.discovery import guess_dialect
from hilum_rules.rule import Problem, Rule, RulesFile
from hilum_rules.rule_list import (
    STATES,
    RuleList,
    describe_file,
    format_problems,
    format_rule,
    print_lines,
    show_rule,
    wrap,
)
from hilum_rules.rule_store import RuleStore, Snapshot, read_store

ABOUT = """\
Show the rules that apply in this folder, numbered as the model sees them: file
and line, whether hilum enforces it or it is only advice to the model, and why.

  hilum rules                   count and list the rules, and what was not read
  hilum rules --enforced        list only the enforced ones (or --proposed, --advice)
  hilum rules --why 2.5         show one rule in full, and why it is (not) enforced
  hilum rules check AGENTS.md   show the rules in a file, and what is not read
  hilum rules compile           let a model propose checks, and sign them
"""
AddToList = Callable[[RuleList, RuleStore], RuleList]
"""A function that adds something to the list of ``hilum rules``."""
# The actions, with the argument that each one takes.
_ACTIONS = {
    "list": "nothing",
    "show": "the number of a rule: 2.5",
    "check": "a file",
    "compile": "options of its own, and comes first",
}
_DATA = (".json", ".jsonc", ".json5", ".toml", ".lock", ".yaml", ".yml", ".ini", ".cfg", ".xml")


def main(argv: Sequence[str]) -> int:
    """Show which rules are read and enforced, and check a file of rules.

    Returns:
        The exit code: 1 if a checked file has problems.
    """
    if argv and argv[0] == "compile":
        return _run_compile(list(argv[1:]))
    check_text(argv)
    try:
        options = _make_parser().parse_intermixed_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    _check_options(options)
    if options.action == "check":
        return _run_check(options)
    store = read_store(options.workspace, options.kind)
    shown = [state for state in STATES if getattr(options, state)]
    snapshot = _add_contradictions(store.snapshot, store.paths.workspace)
    rules = _add_signing(RuleList(snapshot, shown=shown), store)
    if options.action == "show":
        _run_show(options, rules)
    elif options.json:
        say_json(_list_data(rules) | _rules_data(rules))
    else:
        print_lines(rules.format())
    return 0


def _check_options(options: argparse.Namespace) -> None:
    """Reject options that contradict each other, and replace ``--why N`` by ``show N``."""
    if options.why:
        if options.what or options.action != "list":
            raise UsageError("--why takes the place of an action.", code=E_BAD_ARGS)
        options.action = "show"
        options.what = options.why
    if options.action == "compile" or bool(options.what) == (options.action == "list"):
        raise UsageError(
            f"hilum rules {options.action} takes {_ACTIONS[options.action]}.",
            code=E_BAD_ARGS,
            hint="See hilum rules --help.",
        )


def _run_compile(argv: list[str]) -> int:
    """Run the sub-command ``compile``, which another package provides.

    Raises:
        UsageError: The package is not installed.
    """
    run = load_command("compile", "hilum.rules_commands")
    if run is None:
        raise UsageError(
            "hilum rules compile comes with the package hilum-rules-compile.",
            code=E_NOT_FOUND,
            hint="pip install hilum-rules-compile",
        )
    return run(argv)


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
        choices=SESSION_KINDS,
        metavar="KIND",
        help=f"as in a session of this kind: {', '.join(SESSION_KINDS)}",
    )
    parser.add_argument("--why", default="", metavar="N", help="the same as show N")
    for state in STATES:
        parser.add_argument(
            f"--{state}", action="store_true", help=f"list the rules that are {state}"
        )
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _add_signing(rules: RuleList, store: RuleStore) -> RuleList:
    """Return a list with what another package knows about signing, if it is installed."""
    add = load_command("compile", "hilum.rules_lists")
    return cast("AddToList", add)(rules, store) if add else rules


def _add_contradictions(snapshot: Snapshot, root: Path) -> Snapshot:
    """Return the rules with a problem for each two that exclude each other. Blocks."""
    enforced = [rule for _, _, rule in snapshot.numbered() if rule.is_enforced]
    if not enforced:
        return snapshot
    from hilum_checks.contradictions import find_contradictions

    problems = [
        Problem(
            requiring.path,
            requiring.line,
            f"This rule requires {action}, which {forbidding.path}:{forbidding.line} denies"
            f" (“{forbidding.sentence[:160]}”). Nothing that waits for it can be done: change one of"
            " the two rules.",
        )
        for requiring, forbidding, action in find_contradictions(enforced, root)
    ]
    return msgspec.structs.replace(snapshot, problems=(*snapshot.problems, *problems))


# --- actions --------------------------------------------------------------------------------------


def _run_show(options: argparse.Namespace, rules: RuleList) -> None:
    number = options.what
    for each, file, rule in rules.snapshot.numbered():
        if each == number:
            state = rules.state_of(rule)
            checks = rules.proposed.get(rule.id, ())
            if options.json:
                say_json(_rule_data(number, file, rule, state) | {"proposed": list(checks)})
            else:
                print_lines(show_rule(number, file, rule, state, checks))
            return
    raise UsageError(
        f"There is no rule {number}.", code=E_NOT_FOUND, hint="`hilum rules` lists them."
    )


def _run_check(options: argparse.Namespace) -> int:
    from hilum_rules.loading import load_rules

    path = Path(os.path.expanduser(options.workspace), os.path.expanduser(options.what))
    if not os.path.lexists(path):
        raise UsageError(
            f"There is no file {options.what!r}.",
            code=E_NOT_FOUND,
            hint="`hilum rules` lists the rules files that are read here.",
        )
    if path.suffix.lower() in _DATA and guess_dialect(path) == "markdown":
        raise UsageError(
            f"{options.what!r} is not a rules file: hilum reads no rules in {path.suffix} files.",
            code=E_BAD_ARGS,
            hint="`hilum rules` lists the rules files that are read here.",
        )
    file = load_rules(path)
    snapshot = Snapshot(files=(file,), problems=file.problems, numbers={file.path: 1})
    snapshot = _add_contradictions(snapshot, Path(options.workspace).resolve())
    rules = RuleList(snapshot)
    if options.json:
        say_json({"file": _file_data(1, file), **_rules_data(rules)})
    else:
        lines = wrap(
            f"{file.path}: {count(len(file.rules), 'rule')} ({describe_file(file)})", "", "  "
        )
        for number, _, rule in snapshot.numbered():
            lines += format_rule(number, rule, rules.state_of(rule))
        print_lines([*lines, *format_problems(snapshot.problems)])
    return 1 if snapshot.problems else 0


# --- as data --------------------------------------------------------------------------------------


def _list_data(rules: RuleList) -> dict[str, Any]:
    snapshot = rules.snapshot
    return {
        "source_hash": snapshot.bundle.source_hash,
        "files": [
            _file_data(snapshot.numbers.get(file.path, 0), file) | _counts(rules, file)
            for file in snapshot.files
        ],
    }


def _rules_data(rules: RuleList) -> dict[str, Any]:
    return {
        "rules": [
            _rule_data(number, file, rule, rules.state_of(rule))
            for number, file, rule in rules.snapshot.numbered()
            if not rules.shown or rules.state_of(rule) in rules.shown
        ],
        "problems": [msgspec.structs.asdict(problem) for problem in rules.snapshot.problems],
    }


def _counts(rules: RuleList, file: RulesFile) -> dict[str, int]:
    counts = rules.count(file.rules)
    return {state: counts[state] for state in STATES}


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


def _rule_data(number: str, file: RulesFile, rule: Rule, state: str) -> dict[str, Any]:
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
        "enforced": rule.is_enforced,
        "state": state,
        "why": rule.why,
        "enforce": [line.text for line in rule.enforce],
    }
