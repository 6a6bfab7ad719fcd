"""Git commands that only read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from hilum_guard.harmless_arguments import Program, find_argument_doubt
from hilum_guard.path_checks import is_secret
from hilum_guard.repository_settings import repository_doubt
from hilum_guard.shell_words import Word

if TYPE_CHECKING:
    from hilum_guard.shell_commands import ParsedCommand

_SHOWN = (
    "oneline stat shortstat numstat name-only name-status graph decorate all no-color color patch"
    " no-patch raw cached staged abbrev-commit no-merges merges first-parent reverse follow summary"
    " word-diff ignore-all-space no-renames ignore-space-change check exit-code quiet branches tags"
    " remotes no-decorate full-history date-order topo-order find-renames minimal patience"
    " histogram merge-base no-ext-diff no-textconv no-prefix full-index binary cc left-right"
    " cherry-pick source color-words relative-date walk-reflogs simplify-by-decoration"
    " function-context"
)
_SHOWN_VALUED = (
    "format pretty date since until after before author committer grep max-count skip unified"
    " diff-filter abbrev diff-algorithm word-diff-regex inter-hunk-context stat stat-count glob"
    " min-parents max-parents"
)
# Without `--output`, which writes a file, and `--ext-diff` and `--textconv`, which run programs.
_LOG = Program("pnuswbMCRiEFPzgcm", "nSGULl", _SHOWN, _SHOWN_VALUED, operands="text", numbers=True)
# Without `-d`, `-m` and `-c`, which change branches.
_NAMES = Program(
    "arvl",
    "",
    "list all remotes show-current verbose no-color color merged no-merged column no-column "
    "ignore-case contains no-contains",
    "sort format points-at",
    operands="none",
)

COMMANDS: dict[str, Program] = {
    "status": Program(
        "sbuvz",
        "",
        "short branch porcelain untracked-files ignored long show-stash verbose renames no-renames "
        "ahead-behind no-ahead-behind column",
        operands="text",
    ),
    "log": _LOG,
    "diff": _LOG,
    "show": _LOG,
    "shortlog": Program("nsec", "", _SHOWN + " numbered email", _SHOWN_VALUED, operands="text"),
    "rev-list": Program("n", "n", _SHOWN + " count", _SHOWN_VALUED, operands="text", numbers=True),
    "branch": _NAMES,
    "rev-parse": Program(
        "q",
        "",
        "show-toplevel abbrev-ref short verify is-inside-work-tree git-dir "
        "show-prefix symbolic-full-name quiet show-cdup git-common-dir HEAD",
        operands="text",
    ),
    "ls-files": Program(
        "cdmosktzuv",
        "x",
        "cached deleted modified others stage exclude-standard full-name ignored "
        "error-unmatch unmerged directory",
        "exclude",
        operands="text",
    ),
    "ls-tree": Program(
        "rdtlz",
        "",
        "name-only name-status long full-name full-tree abbrev",
        "format",
        operands="text",
    ),
    "blame": Program(
        "wMCesltfnb", "L", "porcelain line-porcelain show-email date root", "", operands="text"
    ),
    "describe": Program(
        "",
        "",
        "tags all always long dirty contains abbrev exact-match",
        "match exclude candidates",
        operands="text",
    ),
    "merge-base": Program(
        "a", "", "all is-ancestor fork-point octopus independent", "", operands="text"
    ),
    "name-rev": Program("", "", "name-only tags always", "refs", operands="text"),
    # Without `--textconv` and `--filters`, which run programs.
    "cat-file": Program("ptse", "", operands="text"),
    # Without `-O`, which opens the files in a pager.
    "grep": Program(
        "nilcwvFEPhHqIeo",
        "eABCm",
        "line-number ignore-case count word-regexp files-with-matches cached name-only"
        " fixed-strings extended-regexp perl-regexp untracked heading break color show-function"
        " all-match and or not only-matching",
        "context after-context before-context max-depth max-count",
        operands="text",
    ),
    "check-ignore": Program("vnqz", "", "verbose quiet", operands="text"),
    "count-objects": Program("vH", operands="none"),
    "version": Program(longs="build-options", operands="none"),
    "help": Program("ag", operands="none"),
}
# Commands that never compare the working tree, for which Git enters nested repositories.
_HISTORY_ONLY = frozenset(
    "log show shortlog rev-list branch rev-parse ls-tree merge-base name-rev cat-file blame"
    " check-ignore count-objects version help reflog remote tag config notes".split()
)
# Commands that only read if this word follows; an empty one stands for no word.
PAIRS: dict[tuple[str, str], Program] = {
    ("stash", "list"): _LOG,
    ("stash", "show"): _LOG,
    ("reflog", "show"): _LOG,
    ("reflog", ""): _LOG,
    ("remote", "-v"): Program(operands="none"),
    ("remote", ""): Program(operands="none"),
    ("remote", "get-url"): Program(longs="all push", operands="text", most=1, least=1),
    ("tag", "-l"): Program("n", "", "sort", "contains merged", operands="text"),
    ("tag", "--list"): Program("n", "", "sort", "contains merged", operands="text"),
    ("tag", ""): Program(operands="none"),
    ("worktree", "list"): Program(longs="porcelain", operands="none"),
    ("submodule", "status"): Program(longs="recursive", operands="none"),
    ("config", "--get"): Program(operands="text", most=1, least=1),
    ("notes", "list"): Program(operands="text"),
    ("bisect", "log"): Program(operands="none"),
}


def find_doubt(command: ParsedCommand) -> str:
    """Return why a Git command is not harmless; empty if it is."""
    words = command.words[1:]
    begin, cwds, why = _read_front_options(command)
    if why:
        return why
    words = words[begin:]
    if not words:
        return ""
    name = words[0].value
    second = words[1].value if len(words) > 1 else ""
    rest = words[1:]
    known = COMMANDS.get(name)
    if known is None:
        known = PAIRS.get((name, second))
        rest = words[2:]
    if known is None:
        shown = f"{name} {second}".rstrip()
        return f"`git {shown}` is not on the list of harmless commands."
    # Paths after `-C` are relative to that folder.
    git_words = (Word(f"git {name}"), *rest)
    moved = attrs.evolve(command, cwds=tuple(cwds), words=git_words)
    why = find_argument_doubt(known, moved, rest) or _find_operand_doubt(moved)
    if why:
        return why
    for cwd in cwds:
        enters_nested = name not in _HISTORY_ONLY
        why = _UNKNOWN_FOLDER
        if cwd is not None:
            why = repository_doubt(cwd, enters_nested=enters_nested)
        if why:
            return why
    return ""


def _read_front_options(command: ParsedCommand) -> tuple[int, list[str | None], str]:
    """Read the options before the sub-command.

    Returns:
        The position of the sub-command, the folders that Git runs in, and why the options are not
        harmless; the reason is empty if they are.
    """
    values = command.arguments
    cwds = list(command.cwds)
    at = 0
    while at < len(values) and values[at].startswith("-"):
        option = values[at]
        at += 1
        if option == "-C" and at < len(values):
            goal = command.words[at + 1]
            at += 1
            why = command.checker.read_doubt(goal, cwds)
            if why:
                return at, cwds, why
            cwds = [command.checker.absolute(goal.value, cwd) for cwd in cwds]
        elif option not in _HARMLESS_OPTIONS and values[at - 1 :] != ["--version"]:
            why = f"`git` with {option} is not on the list of harmless commands."
            return at, cwds, why
    return at, cwds, ""


# `-c`, `--git-dir` and `--exec-path` are missing on purpose: they change the settings or the
# programs that Git uses, so even `git status` could run any program.
_HARMLESS_OPTIONS = frozenset(("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"))
_UNKNOWN_FOLDER = "The folder that it runs in is known only at run time."


def _find_operand_doubt(command: ParsedCommand) -> str:
    """Return why an operand, which may be a revision or a file, is not harmless.

    Files outside the workspace and files with secrets are not harmless.
    """
    for word in command.words[1:]:
        text = word.value
        if is_secret(text.rpartition(":")[2]):
            return f"It shows {text}, which may contain secrets."
        if text.startswith(("-", ":")):
            continue
        for cwd in command.cwds:
            path = command.checker.absolute(text, cwd)
            if path and _may_be_file(text, path):
                why = command.checker.read_doubt(word, [cwd])
                if why:
                    return why
    return ""


def _may_be_file(text: str, path: str) -> bool:
    """Return whether a word is an existing file, or would be a file outside the folder."""
    return os.path.isabs(text) or ".." in text.split("/") or os.path.lexists(path)
