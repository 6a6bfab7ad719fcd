"""Git commands that only look: their options, and the repository settings with which even looking
runs programs.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import attrs

from hilum_guard.harmless import Program, words_doubt
from hilum_guard.places import is_secret, within
from hilum_guard.words import Word

if TYPE_CHECKING:
    from hilum_guard.simple import Simple

# Settings of a repository that name programs, or take further settings from elsewhere.
_RUNS = re.compile(
    r"fsmonitor|pager|sshcommand|editor|external|textconv|command|program|driver|hookspath|askpass|helper|proxy|"
    r"include|smudge|clean|process|showsignature|worktree\s*=|attributesfile",
    re.IGNORECASE,
)

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
_LOG = Program("pnuswbMCRiEFPzgcm", "nSGULl", _SHOWN, _SHOWN_VALUED, operands="text", numbers=True)
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
    "cat-file": Program("ptse", "", operands="text"),
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
# Commands that look only with these words after them.
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


def doubt(simple: Simple) -> str:
    """Return why a Git command is not harmless; empty if it is."""
    words = list(simple.words[1:])
    cwds = list(simple.cwds)
    while words and words[0].value.startswith("-"):
        option = words.pop(0).value
        if option == "--version" and not words:
            return ""
        if option == "-C" and words:
            goal = words.pop(0)
            why = simple.places.read_doubt(goal, cwds)
            if why:
                return why
            cwds = [simple.places.absolute(goal.value, cwd) for cwd in cwds]
        elif option not in {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"}:
            return f"`git` with {option} is not on the list of harmless commands."
    if not words:
        return ""
    name = words[0].value
    second = words[1].value if len(words) > 1 else ""
    known = COMMANDS.get(name)
    rest = words[1:]
    if known is None:
        known = PAIRS.get((name, second))
        rest = words[2:]
    if known is None:
        return (
            f"`git {name}{' ' + second if second else ''}` is not on the list of harmless commands."
        )
    moved = attrs.evolve(simple, cwds=tuple(cwds), words=(Word(f"git {name}"), *rest))
    why = words_doubt(known, moved, rest) or _operands_doubt(moved)
    if why:
        return why
    if any(cwd is None for cwd in cwds):
        return "It runs in a folder that only the run would tell."
    return next((why for cwd in cwds if cwd and (why := repository_doubt(cwd))), "")


def _operands_doubt(simple: Simple) -> str:
    """Operands may be revisions or files; a file outside, or one with secrets, is a doubt."""
    for word in simple.words[1:]:
        text = word.value
        if is_secret(text.rpartition(":")[2]):
            return f"It shows {text}, which may hold secrets."
        if text.startswith(("-", ":")):
            continue
        for cwd in simple.cwds:
            path = simple.places.absolute(text, cwd)
            if path and ("/" in text or os.path.lexists(path)):
                outside = os.path.isabs(text) or ".." in text.split("/") or os.path.lexists(path)
                if outside and (why := simple.places.read_doubt(word, [cwd])):
                    return why
    return ""


def repository_doubt(folder: str) -> str:
    """Find the repository a folder is in, and say why its own settings may run programs even if Git
    only looks. Blocks.

    Args:
        folder: The folder.

    Returns:
        A sentence; empty if they cannot, or if the folder is in no repository.
    """
    folder = os.path.realpath(folder)
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(
            os.path.join(folder, "objects")
        ):
            return f"{folder} is a repository without files, whose settings may run programs."
        if os.path.lexists(git):
            return _settings_doubt(git)
        if folder == "/" or not within(os.path.dirname(folder), "/"):
            return ""
        folder = os.path.dirname(folder)


def _settings_doubt(git: str) -> str:
    try:
        if os.path.isfile(git):
            with open(git, encoding="utf-8") as file:
                git = os.path.join(
                    os.path.dirname(git), file.read(4096).partition("gitdir:")[2].strip()
                )
        common = os.path.join(git, "commondir")
        folders = [git]
        if os.path.isfile(common):
            with open(common, encoding="utf-8") as file:
                folders.append(os.path.join(git, file.read(4096).strip()))
        for folder in folders:
            # Git writes the index even when it only looks, and runs this.
            if os.path.lexists(os.path.join(folder, "hooks", "post-index-change")):
                return "A hook of the repository runs a program."
            for name in ("config", "config.worktree"):
                path = os.path.join(folder, name)
                if os.path.lexists(path):
                    with open(path, encoding="utf-8") as file:
                        found = _RUNS.search(_sections(file.read(100_000)))
                        if found:
                            return (
                                f"The settings of the repository may run a program ({found[0]} in"
                                f" {path})."
                            )
    except (OSError, ValueError) as error:
        return f"The settings of the repository could not be read ({type(error).__name__})."
    return ""


def _sections(text: str) -> str:
    """Leave out values of harmless keys whose text could be anything: addresses, names,
    branches.
    """
    return re.sub(
        r"(?m)^\s*(url|pushurl|name|email|merge|remote|fetch|description)\s*=[^\\\n]*$|^\s*\[(branch|remote)"
        r" \"[^\"\\\n]*\"\]$",
        "",
        text,
    )
