"""Find the local branches that a command creates, and judge their names.

`git branch x`, `git branch -m x`, `git update-ref refs/heads/x` and `git fetch . main:x` create a
branch just as `git switch -c x` does.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from hilum_guard import UNKNOWN, git_words, parse_options

from hilum_checks import code_texts, git_folders, git_options, git_references
from hilum_checks.expressions import count_matches
from hilum_checks.forge_options import read_forge_command
from hilum_checks.git_branches import is_update
from hilum_checks.path_matcher import Fit, stronger_fit

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts
    from hilum_checks.model import Commands, Words


class NewBranch(NamedTuple):
    """A branch that a command creates.

    Attributes:
        name: The name; it contains `…` if it is known only at run time.
        certain: Whether the command certainly creates it.
    """

    name: str
    certain: bool = True


_NAMING = (
    "-b",
    "-B",
    "-c",
    "-C",
    "--create",
    "--force-create",
    "--orphan",
    "--branch",
)
"""Options whose value is the name of a new branch."""
_RENAMING = ("-m", "-M", "-c", "-C", "--move", "--copy")
# Options with which `git branch` lists, deletes or configures branches, even if names follow.
_WITHOUT_NEW = (
    "-l --list -a --all -r --remotes --contains --no-contains --merged --no-merged --points-at -d -D"
    " --delete --show-current -u --set-upstream-to --unset-upstream --edit-description"
).split()
# Code that runs `git branch NAME`: only a quoted command, since comments speak of branches, too.
_IN_CODE = re.compile(
    r"""['"`]git(?:\s+|['"],\s*['"])branch(?:\s+|['"],\s*['"])"""
    r"""(?P<renames>-[mMcC]\b|--(?:move|copy)\b)?(?:-f\b|--force\b)?[\s'",]*"""
    r"""(?P<first>[\w.][^\s'"`,)]*)(?:\s+|['"],\s*['"])?(?P<second>[\w.][^\s'"`,)]*)?"""
)

_NAME_IN_CODE = re.compile(r"""[\s'"`,\[\]()+]+([\w.][\w./-]*)(?![\w./-]|['"`]?\s*\+)""")
# The form of an allowed name in an `enforce:` line may be an expression; no name begins with a slash.
_EXPRESSION = re.compile(r"/(.+)/", re.DOTALL)


def match_new_branches(constraint: Commands, command: CommandFacts) -> Fit:
    """Return whether a command creates a branch that a constraint forbids.

    Args:
        constraint: The constraint; its exceptions are the names that are allowed.
        command: The command.
    """
    best: Fit = ""
    for branch in find_new_branches(command):
        if _is_allowed(branch.name, constraint):
            continue
        is_certain = branch.certain and not (constraint.unless and UNKNOWN in branch.name)
        best = stronger_fit(best, "yes" if is_certain else "maybe")
    if best != "yes" and any(_is_in_code(constraint, text) for text in command.texts):
        return "yes"
    return best


def find_new_branches(command: CommandFacts) -> Iterator[NewBranch]:
    """Yield the local branches that a command creates, also by renaming or copying another one.

    A branch that exists already is not new, and neither is a copy of a remote's branch that has the
    same name.

    Args:
        command: The command.
    """
    git_folder = git_folders.find_git_folder(command)
    is_known = bool(git_folder) and git_folder != UNKNOWN
    for branch in _find_named(command, git_folder if is_known else ""):
        if is_known and git_folders.has_reference(git_folder, f"refs/heads/{branch.name}"):
            continue
        yield branch


def _find_named(command: CommandFacts, git_folder: str) -> Iterator[NewBranch]:
    """Yield the branches that a command creates unless they exist.

    Args:
        command: The command.
        git_folder: The Git folder; empty if it is unknown.
    """
    for other in git_references.find_equivalents(command):
        if other.words[:2] != ("git", "branch") or "-D" in other.words:
            continue
        name = "".join(other.words[2:]) or UNKNOWN
        if not is_update(name, other.source, command):
            # In an unknown repository, the branch may exist already.
            yield NewBranch(name, other.certain and bool(git_folder))
    yield from _find_checked_out(command)
    program = command.effects.program
    # `git-flow feature start x` is `git flow feature start x`.
    if program.startswith("git-"):
        words: Words = ("git", program.removeprefix("git-"), *command.words[1:])
    elif program == "git":
        words = git_words(command.words)
    else:
        return
    read = _READERS.get("".join(words[1:2]))
    if read is not None:
        yield from read(words[2:], git_folder)


def _find_checked_out(command: CommandFacts) -> Iterator[NewBranch]:
    """Yield the branches that `gh` and `glab` create for a pull request or an issue.

    Without a name, the branch of a pull request is a copy of the one in the remote.
    """
    request = read_forge_command(command.effects.program, command.words)
    if request is None:
        return
    if request.verbs[2] == "checkout":
        named = request.find_last("-b", "--branch")
        if named:
            yield NewBranch(named[1])
    elif request.verbs[1:] == ("issue", "develop") and request.find_last("-c", "--checkout"):
        named = request.find_last("-n", "--name")
        # Without a name, GitHub makes one of the number and the title.
        yield NewBranch(named[1] if named else UNKNOWN)


def _read_switch(words: Words, _: str) -> Iterator[NewBranch]:
    parsed = parse_options(words, git_options.SWITCH)
    yield from map(NewBranch, parsed.values(*_NAMING))


def _read_checkout(words: Words, _: str) -> Iterator[NewBranch]:
    parsed = parse_options(words, git_options.CHECKOUT)
    yield from map(NewBranch, parsed.values(*_NAMING))


def _read_branch(words: Words, git_folder: str) -> Iterator[NewBranch]:
    # The value of `-t` is attached, and would be read as further options.
    plain = [word for word in words if word not in ("-tdirect", "-tinherit")]
    parsed = parse_options(plain, git_options.BRANCH)
    names = parsed.operands
    if parsed.has(*_WITHOUT_NEW) or not names:
        return
    is_renamed = parsed.has(*_RENAMING)
    if is_renamed and len(names) == 1 and git_folder and not _has_commits(git_folder):
        return  # in a new repository, this only names the first branch
    name = names[-1] if is_renamed else names[0]
    # A word that is known only at run time may be an option.
    yield NewBranch(name, not name.startswith(UNKNOWN))


def _has_commits(git_folder: str) -> bool:
    current = git_folders.read_head(git_folder)
    return git_folders.has_reference(git_folder, f"refs/heads/{current}")


def _read_worktree(words: Words, git_folder: str) -> Iterator[NewBranch]:
    if words[:1] != ("add",):
        return
    parsed = parse_options(words[1:], git_options.WORKTREE)
    named = parsed.values(*_NAMING)
    yield from map(NewBranch, (name for name in named if name))
    is_given = any(named) or len(parsed.operands) > 1 or parsed.has("-d", "--detach")
    if is_given or not parsed.operands:
        return
    # Without a branch, Git creates one with the name of the folder.
    name = os.path.basename(os.path.normpath(parsed.operands[0]))
    if not git_folder or not git_folders.has_remote_branch(git_folder, name):
        yield NewBranch(name)


def _read_stash(words: Words, _: str) -> Iterator[NewBranch]:
    if words[:1] == ("branch",):
        yield from map(NewBranch, parse_options(words[1:], git_options.PLAIN).operands[:1])


def _read_symbolic(words: Words, _: str) -> Iterator[NewBranch]:
    """Read `git symbolic-ref HEAD refs/heads/x`, after which the next commit creates `x`."""
    names = parse_options(words, git_options.PLAIN).operands
    if len(names) > 1 and names[0] == "HEAD":
        yield NewBranch(names[1].removeprefix("refs/heads/"))


def _read_subtree(words: Words, _: str) -> Iterator[NewBranch]:
    if words[:1] == ("split",):
        parsed = parse_options(words[1:], git_options.SUBTREE)
        yield from map(NewBranch, parsed.values("-b", "--branch"))


def _read_svn(words: Words, _: str) -> Iterator[NewBranch]:
    if words[:1] == ("branch",):
        yield from map(NewBranch, parse_options(words[1:], git_options.PLAIN).operands[:1])


def _read_flow(words: Words, _: str) -> Iterator[NewBranch]:
    """Read `git flow feature start x`, which creates `feature/x`."""
    names = [word for word in words if not word.startswith("-")]
    if len(names) > 2 and names[1] == "start":
        yield NewBranch(f"{names[0]}/{names[2]}")


def _read_town(words: Words, _: str) -> Iterator[NewBranch]:
    names = [word for word in words if not word.startswith("-")]
    if len(names) > 1 and names[0] in ("hack", "append", "prepend"):
        yield from map(NewBranch, names[1:])


_READERS: dict[str, Callable[[Words, str], Iterator[NewBranch]]] = {
    "switch": _read_switch,
    "checkout": _read_checkout,
    "branch": _read_branch,
    "worktree": _read_worktree,
    "stash": _read_stash,
    "symbolic-ref": _read_symbolic,
    "subtree": _read_subtree,
    "svn": _read_svn,
    "flow": _read_flow,
    "town": _read_town,
}


def _is_allowed(name: str, constraint: Commands) -> bool:
    """Return whether the name of a new branch is certainly one of a constraint's exceptions."""
    return any(_fits_name(name, words[-1]) for words in constraint.unless)


def _fits_name(name: str, form: str) -> bool:
    """Return whether a name certainly has a form: a pattern, or an expression between slashes."""
    expression = _EXPRESSION.fullmatch(form)
    if expression is None:
        # `fix/$X` begins with `fix/`, whatever the rest is.
        return fnmatch.fnmatchcase(name, form)
    return UNKNOWN not in name and bool(count_matches(expression[1], name, 1))


def _is_in_code(constraint: Commands, text: str) -> bool:
    """Return whether code creates a branch with a forbidden name."""
    for pattern in constraint.patterns:
        for found in code_texts.mention_pattern(pattern).finditer(text):
            allowed = [
                code_texts.mention_pattern((*pattern, words[-1])) for words in constraint.unless
            ]
            named = _NAME_IN_CODE.match(text, found.end())
            is_allowed = named is not None and _is_allowed(named[1], constraint)
            if not is_allowed and not any(each.match(text, found.start()) for each in allowed):
                return True
    for found in _IN_CODE.finditer(text):
        name = (found["renames"] and found["second"]) or found["first"]
        if not _is_allowed(name, constraint):
            return True
    return False
