"""Match the branches that a Git command changes or pushes to against protected branches."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hilum_guard import UNKNOWN, git_words, parse_options, resolve_links

from hilum_checks import code_texts, git_folders, git_options, git_references

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts
    from hilum_checks.path_matcher import Fit

_ALL_BRANCHES = frozenset(("--all", "--mirror", "--branches"))
_NEW_BRANCH = frozenset(("-b", "-c", "--create"))
_RESET_BRANCH = frozenset(("-B", "-C", "--force-create"))
_ORPHAN = "--orphan"
_HEAD_FILE = re.compile(r"(?:^|.*/)\.git/(?:worktrees/[^/]+/)?HEAD", re.DOTALL)
_PACKED = re.compile(r"(?:^|.*/)\.git/packed-refs", re.DOTALL)
_REMOTE_REFSPEC = re.compile(r"remote\..*\.fetch=(.+)", re.DOTALL | re.IGNORECASE)
_TRACKED = re.compile(
    r"(?:refs/remotes/|remotes/)?(?:origin|upstream)/(.+)|refs/remotes/[^/]+/(.+)"
)
# Code that runs commands in other folders.
_ENTERING = re.compile(r"\bcwd\b|chdir|GIT_DIR|current_dir|set_?cwd", re.IGNORECASE)
_DETACHED = "(detached)"
# Programs that neither create a branch nor a folder.
_INERT = frozenset("cd pushd echo printf true : ls cat pwd export set sleep".split())
_INERT_GIT = frozenset("add stage status diff log checkout switch commit config".split())


def match_branches(branches: Sequence[str], command: CommandFacts) -> Fit:
    """Return whether a commit or push changes one of the given branches.

    Args:
        branches: The names of the branches.
        command: The commit or push. Preceding commands may have switched branches.
    """
    words = git_words(command.words)
    is_push = words[1:2] == ("push",)
    # Options such as `--all` push every branch, including protected ones.
    if is_push and not _ALL_BRANCHES.isdisjoint(words):
        return "yes"
    refspecs = git_options.list_operands("push", words[2:])[1:] if is_push else []
    # Without a refspec, ``git push`` pushes the current branch by default.
    targets = [_target(refspec) for refspec in refspecs] or ["HEAD"]
    return _match_targets(branches, targets, command)


def match_changed_branches(branches: Sequence[str], command: CommandFacts) -> Fit:
    """Return whether a command changes one of the given branches without a commit on it.

    `git branch -f main` and `git update-ref refs/heads/main` bring commits to `main`, too.

    Args:
        branches: The names of the branches.
        command: The command.
    """
    if any(_matches_file(command, _PACKED)):
        return "maybe"
    if command.effects.program != "git" and not command.effects.files:
        return ""
    best: Fit = ""
    for change in _find_changed(command):
        # Branches that only a wildcard covers are deleted when they are merged.
        if change.deletes and change.name not in (*branches, UNKNOWN):
            continue
        fit = _match_targets(branches, [change.name], command)
        if fit == "yes" and change.certain:
            return "yes"
        best = "maybe" if fit else best
    return best


def _match_targets(branches: Sequence[str], targets: Sequence[str], command: CommandFacts) -> Fit:
    current = _find_current(command) if {"HEAD", "@"} & set(targets) else ""
    targets = [current if target in ("HEAD", "@") else target for target in targets]
    for target in targets:
        if any(_is_same(branch, target) for branch in branches):
            return "yes"
    return "maybe" if any(UNKNOWN in target for target in targets) else ""


def _is_same(branch: str, target: str) -> bool:
    """Return whether the name of a branch fits; either may contain wildcards."""
    return fnmatch.fnmatchcase(branch, target) or fnmatch.fnmatchcase(target, branch)


def _target(refspec: str) -> str:
    # "[+]SOURCE:TARGET"; without a colon, both have the same name (git-push(1)).
    return refspec.lstrip("+").rpartition(":")[2].removeprefix("refs/heads/")


# --- the branch that is checked out ---------------------------------------------------------------


def _find_current(command: CommandFacts) -> str:
    """Return the branch that is checked out when a command runs, or `…` if unknown."""
    folder = _find_entered(command)
    git_folder = _find_git_folder(command, folder)
    if git_folder == UNKNOWN:
        return UNKNOWN
    # ``git switch main && git push`` pushes main although another branch is checked out now.
    for earlier in git_folders.list_commands(command):
        if earlier is command:
            continue
        if any(_matches_file(earlier, _HEAD_FILE)):
            return UNKNOWN
        if _brings_folder(earlier, folder):
            return UNKNOWN
        if earlier.effects.program != "git":
            continue
        branch = _added_branch(earlier, folder) or _switched_to(earlier)
        if not branch:
            continue
        if _is_made_by(earlier, folder):
            return branch
        # A switch in another working tree does not concern this one.
        switched = _find_git_folder(earlier, _find_entered(earlier))
        if switched == UNKNOWN:
            return UNKNOWN
        if switched == git_folder:
            return branch
    return git_folders.read_head(git_folder) if git_folder else ""


def _find_entered(command: CommandFacts) -> str:
    """Return the folder in which a command runs, also if a preceding `cd` certainly fails."""
    folder = git_folders.find_folder(command)
    if UNKNOWN in folder or os.path.isdir(folder) or len(command.cwds) < 2:
        return folder
    earlier = list(git_folders.list_commands(command))[1:]
    # An earlier command may create the folder, unless it only enters it.
    for each in earlier:
        if each.effects.program not in _INERT and _names_folder(each, folder):
            return folder
    remaining = [cwd for cwd in command.cwds if cwd and os.path.isdir(cwd)]
    return remaining[-1] if remaining else folder


def _brings_folder(command: CommandFacts, folder: str) -> bool:
    """Return whether a command moves, copies or unpacks a folder to a path that does not exist."""
    program = command.effects.program
    if not command.words or program in _INERT or program == "mkdir":
        return False
    if program == "git" and git_words(command.words)[1:3] != ("worktree", "move"):
        return False
    return not os.path.lexists(folder) and _names_folder(command, folder)


def _names_folder(command: CommandFacts, folder: str) -> bool:
    """Return whether a word of a command names a folder, one in it, or one that contains it."""
    for word in command.words[1:]:
        path = os.path.normpath(os.path.join(command.cwd or "/", os.path.expanduser(word)))
        if UNKNOWN in word or f"{folder}/".startswith(f"{path}/"):
            return True
        if path.startswith(f"{folder}/"):
            return True
    return False


def _find_git_folder(command: CommandFacts, folder: str) -> str:
    """Return the Git folder of a command that runs in a folder, or `…` if unknown."""
    if folder != git_folders.find_folder(command):
        return git_folders.find_containing(folder)
    return git_folders.find_git_folder(command)


def _is_made_by(command: CommandFacts, folder: str) -> bool:
    """Return whether `git worktree add` or `git clone` makes a folder or one that contains it."""
    made = _made_folder(command)
    return bool(made) and f"{resolve_links(folder)}/".startswith(f"{resolve_links(made)}/")


def _made_folder(command: CommandFacts) -> str:
    found = git_references.read_added_tree(git_words(command.words))
    if found is None:
        return ""
    return os.path.join(git_folders.find_folder(command), os.path.expanduser(found.path))


def _added_branch(command: CommandFacts, folder: str) -> str:
    """Return the branch of a working tree that a command adds and that contains a folder."""
    found = git_references.read_added_tree(git_words(command.words))
    if found is None or not _is_made_by(command, folder):
        return ""
    return found.branch or _DETACHED


def _switched_to(command: CommandFacts) -> str:
    """Return the branch to which a Git command switches, or an empty string if none."""
    words = git_words(command.words)
    verb = "".join(words[1:2])
    if verb == "symbolic-ref":
        names = git_options.list_operands(verb, words[2:])
        return _short(names[1]) if len(names) > 1 and names[0] == "HEAD" else ""
    if verb == "rebase":
        # `git rebase UPSTREAM BRANCH` switches to the branch first.
        return "".join(git_options.list_operands(verb, words[2:])[1:2])
    if verb == "branch":
        # Renaming the branch that is checked out does the same as switching.
        is_rename = any(word in ("-m", "-M", "--move") for word in words)
        names = git_options.list_operands(verb, words[2:])
        return names[-1] if is_rename and names else ""
    if verb not in ("checkout", "switch") or "--" in words[:-1]:
        return ""
    git_folder = git_folders.find_git_folder(command)
    is_known = bool(git_folder) and git_folder != UNKNOWN
    options = _options(words)
    for option, value in options:
        if option in _RESET_BRANCH or option == _ORPHAN:
            return value
        if option in _NEW_BRANCH:
            # Git refuses to create a branch that exists, so that the other one stays checked out.
            exists = is_known and git_folders.has_reference(git_folder, f"refs/heads/{value}")
            return "" if exists and not _may_make_branch(command) else value
    if any(option in ("-d", "--detach") for option, _ in options):
        return _DETACHED
    names = git_options.list_operands(verb, words[2:])
    # `git checkout main src/a.py` takes the file from the branch.
    if verb == "checkout" and len(names) > 1 and not any(UNKNOWN in word for word in words):
        return ""
    name = "".join(names[:1])
    if name in ("-", "@{-1}"):
        return UNKNOWN
    if any(option in ("-t", "--track") for option, _ in options):
        return name.removeprefix("refs/remotes/").partition("/")[2]
    if is_known and _cannot_switch(name, command, git_folder):
        return ""
    return _short(name)


def _options(words: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Return the options of `git checkout` or `git switch` with their values, one by one.

    `-qB main` is `-q -B main`.
    """
    syntax = git_options.SWITCH if words[1:2] == ("switch",) else git_options.CHECKOUT
    return parse_options(words[2:], syntax).options


def _short(reference: str) -> str:
    return reference.removeprefix("refs/heads/")


def _cannot_switch(name: str, command: CommandFacts, git_folder: str) -> bool:
    """Return whether `git checkout NAME` certainly does not switch: it names a file or nothing."""
    if not name or UNKNOWN in name or re.search(r"[~^@:{]|\A[0-9a-f]{4,40}\Z", name):
        return False
    for prefix in ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/", ""):
        if git_folders.has_reference(git_folder, f"{prefix}{name}"):
            return False
    if os.path.lexists(os.path.join(git_folders.find_folder(command), name)):
        return not git_folders.has_remote_branch(git_folder, name)
    current = git_folders.read_head(git_folder)
    has_commits = git_folders.has_reference(git_folder, f"refs/heads/{current}")
    is_missing = has_commits and not git_folders.has_remote_branch(git_folder, name)
    return is_missing and not _may_make_branch(command)


def _may_make_branch(command: CommandFacts) -> bool:
    """Return whether an earlier command of the call may create, fetch or delete branches."""
    for earlier in list(git_folders.list_commands(command))[1:]:
        if earlier.effects.program == "git":
            words = git_words(earlier.words)
            makes_branch = words[1:2] in (("checkout",), ("switch",)) and any(
                option in _NEW_BRANCH | _RESET_BRANCH for option, _ in _options(words)
            )
            is_plain = "".join(words[1:2]) in _INERT_GIT and not makes_branch
            if not is_plain:
                return True
        elif earlier.words and earlier.effects.program not in _INERT:
            return True
    return False


def commits_elsewhere(command: CommandFacts) -> bool:
    """Return whether code that a command runs commits in another folder, whose branch is unknown."""
    mention = code_texts.mention_pattern(("git", "commit"))
    return any(mention.search(text) and _ENTERING.search(text) for text in command.texts)


# --- branches that a command changes otherwise ----------------------------------------------------


def _matches_file(command: CommandFacts, pattern: re.Pattern[str]) -> Iterator[bool]:
    """Yield whether each file that a command writes has a path that matches a pattern."""
    for access in command.effects.files:
        for cwd in access.cwds:
            path = os.path.normpath(os.path.join(cwd or "", access.path))
            yield access.kind in ("write", "link") and pattern.fullmatch(path) is not None


class _Change(NamedTuple):
    """A branch that a command changes.

    Attributes:
        name: The name; `HEAD` for the branch that is checked out.
        source: What the branch is set to; empty if unknown.
        deletes: Whether the branch is deleted.
        certain: Whether the command certainly changes it.
    """

    name: str
    source: str = ""
    deletes: bool = False
    certain: bool = True


def _find_changed(command: CommandFacts) -> Iterator[_Change]:
    """Yield the branches that a command sets, renames or deletes."""
    changes = list(_find_by_reference(command))
    if command.effects.program == "git":
        words = git_words(command.words)
        changes += _find_set(words, command)
        refspecs = map(_REMOTE_REFSPEC.fullmatch, command.words)
        changes += [_Change(_target(each[1])) for each in refspecs if each]
    for change in changes:
        if not is_update(change.name, change.source, command):
            yield change


def _find_by_reference(command: CommandFacts) -> Iterator[_Change]:
    """Yield the branches that a command changes by their references."""
    for other in git_references.find_equivalents(command):
        if other.words[:2] != ("git", "branch"):
            continue
        deletes = "-D" in other.words
        names = [word for word in other.words[2:] if word != "-D"]
        yield _Change("".join(names) or UNKNOWN, other.source, deletes, other.certain)


def is_update(name: str, source: str, command: CommandFacts) -> bool:
    """Return whether a branch is set to the state of the same branch of a remote.

    Args:
        name: The branch.
        source: What it is set to.
        command: The command that sets it.
    """
    tracked = _TRACKED.fullmatch(source)
    if tracked is None or (tracked[1] or tracked[2]) != name:
        return False
    if source.startswith(("refs/", "remotes/")):
        return True
    git_folder = git_folders.find_git_folder(command)
    # A local branch or a tag with this name would take precedence.
    return not any(
        git_folders.has_reference(git_folder, f"{prefix}{source}")
        for prefix in ("refs/heads/", "refs/tags/")
    )


def _find_set(words: Sequence[str], command: CommandFacts) -> Iterator[_Change]:
    """Yield the branches that a usual Git command resets, renames or deletes."""
    verb = "".join(words[1:2])
    if verb == "branch":
        yield from _find_set_by_branch(words, command)
    elif verb in ("checkout", "switch"):
        for option, value in _options(words):
            if option in _RESET_BRANCH and _exists(value, command):
                names = git_options.list_operands(verb, words[2:])
                others = [each for each in names if each != value]
                yield _Change(value, "".join(others[:1]))
    elif verb == "worktree":
        found = git_references.read_added_tree(tuple(words))
        if found is not None and found.resets:
            yield _Change(found.branch, found.source)
    elif verb == "rebase":
        names = git_options.list_operands(verb, words[2:])
        for name in names[1:2]:
            yield _Change(_short(name), names[0])
    elif verb == "update-ref":
        names = git_options.list_operands(verb, words[2:])
        if names[:1] in (["HEAD"], ["@"]):
            yield _Change("HEAD", "".join(names[1:2]))


def _find_set_by_branch(words: Sequence[str], command: CommandFacts) -> Iterator[_Change]:
    """Read `git branch` with options that change existing branches."""
    options = {word for word in words if word.startswith("-")}
    letters = {letter for word in options if word[:2] != "--" for letter in word[1:]}
    names = [_short(name) for name in git_options.list_operands("branch", words[2:])]
    if letters & set("mMcC") or options & {"--move", "--copy"}:
        for name in names:
            # `git branch -M main` in a new repository only names its first branch.
            if _exists(name, command):
                yield _Change(name)
    elif letters & set("dD") or "--delete" in options:
        if "r" not in letters:
            yield from (_Change(name, deletes=True) for name in names)
    elif "f" in letters or "--force" in options:
        for name in names[:1]:
            if _exists(name, command):
                yield _Change(name, "".join(names[1:2]))


def _exists(name: str, command: CommandFacts) -> bool:
    """Return whether a branch exists, or may exist if the repository is unknown."""
    git_folder = git_folders.find_git_folder(command)
    if git_folder == UNKNOWN or any(char in name for char in f"{UNKNOWN}*"):
        return True
    return bool(git_folder) and git_folders.has_reference(git_folder, f"refs/heads/{name}")
