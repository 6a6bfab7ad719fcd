"""Find the usual Git commands that do the same to tags, branches and commits as other commands.

A rule about `git tag` also means `git update-ref refs/tags/v1` and `git fetch . main:refs/tags/v1`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hilum import walk_folders
from hilum_guard import UNKNOWN, find_git_top, git_words, list_tracked_files, parse_options

from hilum_checks import git_folders, git_options
from hilum_checks.model import Words

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts


class Equivalent(NamedTuple):
    """A command that does the same as another one.

    Attributes:
        words: The program and its arguments.
        certain: Whether the commands certainly do the same.
        source: The revision that a reference is set to, if it is known.
    """

    words: Words
    certain: bool = True
    source: str = ""


class AddedTree(NamedTuple):
    """A working tree that a Git command makes in a folder of its own.

    Attributes:
        path: The folder, as written.
        branch: The branch that is checked out in it; empty if none is, and `…` if unknown.
        source: The revision of a branch that is reset.
        resets: Whether the branch is reset if it exists.
        linked: Whether the working tree belongs to the same repository.
    """

    path: str
    branch: str
    source: str = ""
    resets: bool = False
    linked: bool = True


MAX_FOLDERS = 2_000
"""Maximum number of folders to search for a file that is added in an unknown folder."""
_LARGE_FOLDERS = frozenset((".git", "node_modules", ".venv"))
_BARE_NAME = re.compile(r"[\w-][\w.-]*")
_TAG: Words = ("git", "tag")
_BRANCH: Words = ("git", "branch")
_COMMIT: Words = ("git", "commit")
_REBASE: Words = ("git", "rebase")
_REBASES = frozenset(("-r", "--rebase", "--no-rebase"))
_PULLS_WITH_REBASE = re.compile(r"pull\.rebase=(?!false|no|off|0)", re.IGNORECASE)
_STORED = re.compile(r"(?:^|.*/)\.git/(?:.+/)?(refs/(?:tags|heads)/.+)", re.DOTALL)
# Commands of `git update-ref --stdin`, and of `git fast-import`, at the beginning of a line.
_UPDATES = re.compile(r"(?:^|[\n\0])(?:symref-)?(create|update|delete) ([^ \n\0]+)")
_IMPORTS = re.compile(r"^(commit|reset|tag) (\S+)", re.MULTILINE)
_REFSPEC = re.compile(r"\+?([^:]*):(.+)", re.DOTALL)
_HERE = re.compile(r"\.{0,2}/|\.\.?$|file://")


def find_equivalents(command: CommandFacts) -> Iterator[Equivalent]:
    """Yield the usual commands that do the same to references and commits as a command.

    Args:
        command: The command.
    """
    for access in command.effects.files:
        for cwd in access.cwds:
            stored = _STORED.fullmatch(os.path.normpath(os.path.join(cwd or "", access.path)))
            if stored and access.kind in ("write", "link", "delete"):
                yield from _change(stored[1], deletes=access.kind == "delete")
    if command.effects.program != "git":
        return
    words = git_words(command.words)
    yield from _find_pushed_tags(command, words)
    if words[1:2] in (("add",), ("stage",)):
        yield from _find_staged(command, git_options.list_operands("add", words[2:]))
        yield from _find_forced(command, words[2:])
    if words[1:2] == ("update-index",) and "--add" in words:
        # `--cacheinfo 100644,HASH,a` names the file last.
        names = [word.rpartition(",")[2] for word in words[2:] if not word.startswith("-")]
        yield Equivalent(("git", "add", *names))
        yield from _find_staged(command, names)
    if words[1:2] == ("pull",) and any(map(_PULLS_WITH_REBASE.match, command.words)):
        yield Equivalent(_REBASE)
    read = _READERS.get("".join(words[1:2]))
    if read is not None:
        yield from read(words[2:], command.command.stdin)


def find_committed(command: CommandFacts) -> Iterator[Equivalent]:
    """Yield `git add data/a` for `git commit data/a`, which commits a file without staging it.

    Args:
        command: The command.
    """
    words = git_words(command.words) if command.effects.program == "git" else ()
    if words[1:2] != ("commit",):
        return
    names = parse_options(words[2:], git_options.COMMIT).operands
    if names:
        yield Equivalent(("git", "add", *names))
        yield from _find_staged(command, names)


def _find_staged(command: CommandFacts, names: Sequence[str]) -> Iterator[Equivalent]:
    """Yield `git add data/a` for `git add a` in the folder `data`, in which other names hold."""
    folder = git_folders.find_folder(command)
    if UNKNOWN in folder:
        yield from _find_namesakes(command, names)
        return
    top = find_git_top(folder)
    if top is None or os.path.realpath(folder) == os.path.realpath(top):
        return
    inner = os.path.relpath(os.path.realpath(folder), os.path.realpath(top))
    plain = [name for name in names if name and not name.startswith((":", "/", "~", UNKNOWN))]
    if plain:
        paths = [os.path.normpath(os.path.join(inner, name)) for name in plain]
        yield Equivalent(("git", "add", *paths))


def _find_forced(command: CommandFacts, words: Words) -> Iterator[Equivalent]:
    """Yield `git add a` for each file that `git add -f .` adds although Git ignores it.

    Files in the index are left out: without the option, Git would add them, too.
    """
    parsed = parse_options(words, git_options.ADD)
    folder = git_folders.find_folder(command)
    top = None if UNKNOWN in folder else find_git_top(folder)
    if top is None or not parsed.has("-f", "--force") or parsed.has("-n", "--dry-run", "-u"):
        return
    # For a pattern, the folder in which it begins is searched.
    starts = [
        os.path.normpath(os.path.join(folder, re.split(r"[^/]*[*?\[]", name, maxsplit=1)[0]))
        for name in parsed.operands or (top,)
    ]
    paths = {path for start in starts for path in _list_below(start)}
    for path in _list_written(command):
        paths.update(path for start in starts if f"{path}/".startswith(f"{start}/"))
    names = {os.path.relpath(path, top) + "/" * path.endswith("/") for path in paths}
    names.difference_update(list_tracked_files(top) or ())
    named = sorted(name for name in names if not name.startswith(".."))
    if named:
        yield Equivalent(("git", "add", *named))


def _list_below(start: str) -> Iterator[str]:
    """Yield the files in a folder, and the large folders in it as a whole."""
    for below, inner, files in islice(walk_folders(start), MAX_FOLDERS):
        large = _LARGE_FOLDERS.intersection(inner) - {".git"}
        yield from (os.path.join(below, name, "") for name in large)
        yield from (os.path.join(below, name) for name in files)
        inner[:] = [each for each in inner if each not in _LARGE_FOLDERS]


def _list_written(command: CommandFacts) -> Iterator[str]:
    """Yield the files that earlier commands of the same call write."""
    for earlier in islice(git_folders.list_commands(command), 1, None):
        for access in earlier.effects.files:
            if access.kind == "write" and UNKNOWN not in access.path and access.cwds[-1:]:
                yield os.path.normpath(os.path.join(access.cwds[-1] or "/", access.path))


def _find_namesakes(command: CommandFacts, names: Sequence[str]) -> Iterator[Equivalent]:
    """Yield `git add DIR/a` for each file `a` of a repository, for `cd "$D" && git add a`."""
    known = [each.cwd for each in git_folders.list_commands(command) if each.cwd]
    top = find_git_top(known[0]) if known else None
    wanted = {name for name in names if _BARE_NAME.fullmatch(name)}
    if top is None or not wanted:
        return
    for folder, inner, files in islice(walk_folders(top), MAX_FOLDERS):
        inner[:] = [each for each in inner if each not in _LARGE_FOLDERS]
        for name in wanted.intersection(files):
            path = os.path.relpath(os.path.join(folder, name), top)
            yield Equivalent(("git", "add", path), certain=False)


def _find_pushed_tags(command: CommandFacts, words: Words) -> Iterator[Equivalent]:
    """Yield `git push origin refs/tags/x` for `git push origin x` if only a tag has this name."""
    is_push = words[1:2] == ("push",)
    names = git_options.list_operands("push", words[2:]) if is_push else []
    folder = git_folders.find_git_folder(command) if len(names) > 1 else ""
    for name in names[1:] if folder and folder != UNKNOWN else ():
        source = name.lstrip("+").partition(":")[0]
        if not source or git_folders.has_reference(folder, f"refs/heads/{source}"):
            continue
        is_tag = git_folders.has_reference(folder, f"refs/tags/{source}")
        if is_tag or any(_creates_tag(each, source) for each in git_folders.list_commands(command)):
            yield Equivalent(("git", "push", names[0], f"refs/tags/{source}"))


def _creates_tag(command: CommandFacts, name: str) -> bool:
    """Return whether a command may create a tag with a name."""
    words = git_words(command.words) if command.effects.program == "git" else ()
    return words[1:2] == ("tag",) and name in words[2:]


def read_added_tree(words: Words) -> AddedTree | None:
    """Read `git worktree add` and `git clone`; return `None` for other commands.

    Args:
        words: The words of a Git command, without options before the sub-command.
    """
    if words[1:3] == ("worktree", "add"):
        return _read_worktree(words[3:])
    if words[1:2] != ("clone",):
        return None
    parsed = parse_options(words[2:], git_options.CLONE)
    names = parsed.operands
    if not names:
        return None
    named = os.path.basename(re.sub(r"(/?\.git)?/?$", "", names[0]))
    branch = "".join(parsed.values("-b", "--branch")[-1:]) or UNKNOWN
    return AddedTree(names[1] if len(names) > 1 else named, branch, linked=False)


def _read_worktree(words: Words) -> AddedTree | None:
    parsed = parse_options(words, git_options.WORKTREE)
    names = [name for name in parsed.operands if name]
    if not names:
        return None
    source = "".join(names[1:2])
    new = "".join(parsed.values("-b")[-1:])
    reset = "".join(parsed.values("-B")[-1:])
    if new or reset:
        return AddedTree(names[0], new or reset, source, resets=bool(reset))
    if parsed.has("-d", "--detach"):
        return AddedTree(names[0], "")
    branch = source.removeprefix("refs/heads/") or os.path.basename(os.path.normpath(names[0]))
    return AddedTree(names[0], UNKNOWN if branch in ("-", "@{-1}") else branch)


def _change(reference: str, *, deletes: bool = False, source: str = "") -> Iterator[Equivalent]:
    """Yield the command that changes or deletes a reference with a full name."""
    kind, _, name = reference.removeprefix("refs/").partition("/")
    if kind == "tags":
        words = (*_TAG, "-d", name) if deletes else (*_TAG, name)
        yield Equivalent(words, source=source)
    elif kind == "heads":
        words = (*_BRANCH, "-D", name) if deletes else (*_BRANCH, name)
        yield Equivalent(words, source=source)
    elif UNKNOWN in kind:
        yield from _change_any()


def _change_any() -> Iterator[Equivalent]:
    """Yield the commands that may change a reference whose name is known only at run time."""
    yield Equivalent(_TAG, certain=False)
    yield Equivalent(_BRANCH, certain=False)
    yield Equivalent((*_BRANCH, "-D"), certain=False)


def _read_update(words: Words, stdin: str | None) -> Iterator[Equivalent]:
    """Read `git update-ref`."""
    parsed = parse_options(words, git_options.UPDATE_REFERENCE)
    if not parsed.has("--stdin"):
        reference, *values = parsed.operands or ("",)
        yield from _change(reference, deletes=parsed.has("-d"), source="".join(values[:1]))
    elif stdin is None or UNKNOWN in stdin:
        yield from _change_any()
    else:
        for verb, reference in _UPDATES.findall(stdin):
            yield from _change(reference.strip('"'), deletes=verb == "delete")


def _read_symbolic(words: Words, _: str | None) -> Iterator[Equivalent]:
    """Read `git symbolic-ref`, which only prints a reference if no target is given."""
    parsed = parse_options(words, git_options.SYMBOLIC_REFERENCE)
    deletes = parsed.has("-d", "--delete")
    names = parsed.operands
    if names and (deletes or len(names) > 1):
        yield from _change(names[0], deletes=deletes)
        # A commit on a branch that refers to another branch changes the other one.
        if names[0] != "HEAD":
            yield from (each for each in map(_refer, names[1:2]) if each is not None)


def _refer(target: str) -> Equivalent | None:
    """Return the command that changes the branch to which a symbolic reference will refer."""
    name = target.removeprefix("refs/heads/")
    return Equivalent((*_BRANCH, name)) if name != target else None


def _read_import(_: Words, stdin: str | None) -> Iterator[Equivalent]:
    """Read `git fast-import`."""
    if stdin is None or UNKNOWN in stdin:
        yield Equivalent(_COMMIT, certain=False)
        yield from _change_any()
        return
    for verb, name in _IMPORTS.findall(stdin):
        if verb == "commit":
            yield Equivalent(_COMMIT)
        yield from _change(f"refs/tags/{name}" if verb == "tag" else name)


def _read_fetch(words: Words, _: str | None) -> Iterator[Equivalent]:
    """Read `git fetch` with the references to which it fetches."""
    yield from _read_fetched(git_options.list_operands("fetch", words))


def _read_pull(words: Words, _: str | None) -> Iterator[Equivalent]:
    parsed = parse_options(words, git_options.PULL)
    chosen = [(name, value) for name, value in parsed.options if name in _REBASES]
    if (
        chosen
        and chosen[-1][0] != "--no-rebase"
        and chosen[-1][1] not in ("false", "no", "off", "0")
    ):
        yield Equivalent(_REBASE)
    yield from _read_fetched(git_options.list_operands("pull", words))


def _read_fetched(names: list[str]) -> Iterator[Equivalent]:
    repository, *refspecs = names or [""]
    for word in refspecs:
        yield from _copy(word, is_local=True, repository=repository)


def _read_push(words: Words, _: str | None) -> Iterator[Equivalent]:
    """Read `git push` with the references to which it pushes."""
    parsed = parse_options(words, git_options.PUSH)
    repository, *refspecs = parsed.operands or ("",)
    is_local = _HERE.match(repository) is not None
    deletes = parsed.has("-d", "--delete")
    for word in refspecs:
        yield from _copy(f":{word}" if deletes else word, is_local=is_local)


def _copy(refspec: str, *, is_local: bool, repository: str = ".") -> Iterator[Equivalent]:
    """Yield the command that does the same as a refspec.

    Args:
        refspec: The refspec, `SOURCE:TARGET`.
        is_local: Whether the target is in a repository on this machine.
        repository: The repository that contains the source.
    """
    parts = _REFSPEC.fullmatch(refspec)
    if parts is None:
        return
    source, target = parts[1], parts[2]
    if target.startswith(("tags/", "heads/")):
        target = f"refs/{target}"
    # A tag that is copied under its own name is not a new one.
    if target.startswith("refs/tags/"):
        if not source.startswith(("refs/tags/", "tags/")):
            yield from _change(target, deletes=not source)
    elif is_local:
        full = target if target.startswith("refs/") else f"refs/heads/{target}"
        if source and not _HERE.match(repository):
            source = f"refs/remotes/{repository}/{source.removeprefix('refs/heads/')}"
        yield from _change(full, deletes=not source, source=source)


def _read_object(words: Words, _: str | None) -> Iterator[Equivalent]:
    """Read `git hash-object`, which can store any kind of object."""
    if "commit" in words:
        yield Equivalent(_COMMIT)
    elif "tag" in words:
        yield Equivalent(_TAG)


def _read_tag_object(_: Words, stdin: str | None) -> Iterator[Equivalent]:
    yield Equivalent(_TAG)


_READERS = {
    "update-ref": _read_update,
    "symbolic-ref": _read_symbolic,
    "fast-import": _read_import,
    "fetch": _read_fetch,
    "pull": _read_pull,
    "push": _read_push,
    "hash-object": _read_object,
    "mktag": _read_tag_object,
}
