"""Read how Git commands affect files in the working tree, other folders and the object database."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

import attrs

from hilum_guard.effects import git_objects
from hilum_guard.effects.file_access import UNKNOWN, Depth, FileAccess, FoundFiles, UntrackedQuery
from hilum_guard.effects.invocation import Invocation
from hilum_guard.programs import options
from hilum_guard.programs.options import Parsed
from hilum_guard.repositories.tracked_files import find_git_top

# Options before the sub-command that take the next word as their value.
_FRONT_VALUED = frozenset(
    "-C -c --git-dir --work-tree --namespace --config-env --attr-source".split()
)
# Commands that do not change files in the working tree, except with options that this module reads.
_READ_ONLY = frozenset(
    """status log show diff blame grep ls-files ls-tree cat-file rev-parse branch tag remote
    config describe shortlog reflog rev-list merge-base for-each-ref name-rev add commit fetch
    push stage bundle check-attr check-ignore ls-remote fsck count-objects help version notes""".split()
)
_VALUED: dict[str, frozenset[str]] = {
    "clone": frozenset(
        "-b --branch -o --origin -u --upload-pack --reference --template --depth -c --config -j"
        " --jobs --filter --separate-git-dir".split()
    ),
    "worktree": frozenset("-b -B --reason".split()),
    **dict.fromkeys(("add", "stage"), frozenset("--chmod --pathspec-from-file".split())),
    "rm": frozenset(("--pathspec-from-file",)),
    "mv": frozenset[str](),
    "checkout": frozenset("-b -B --orphan --conflict --pathspec-from-file".split()),
    "restore": frozenset("-s --source --conflict --pathspec-from-file".split()),
    "config": frozenset("-f --file --blob --type --default --comment".split()),
    "checkout-index": frozenset("--prefix --stage".split()),
    "apply": frozenset(
        "-p -C --directory --exclude --include --whitespace --build-fake-ancestor".split()
    ),
    "clean": frozenset("-e --exclude".split()),
}
_MESSAGE = frozenset(("-m",))
_ADDING = frozenset(("add", "stage", "commit"))
_CACHE_INFO = re.compile(r"[0-7]{6},[0-9a-f…]+,(.+)", re.DOTALL)
# A line for `git update-index --index-info`: "MODE [TYPE] OBJECT [STAGE]<tab>PATH".
_INDEX_LINE = re.compile(r"^[0-7]+ [^\t\n]+\t(.+)$", re.MULTILINE)
_INIT = options.Syntax(
    flags=frozenset("q"),
    valued=frozenset("b"),
    longs=frozenset("--quiet --bare --shared".split()),
    long_valued=frozenset(
        "--initial-branch --template --separate-git-dir --object-format --ref-format".split()
    ),
    complete=True,
)
_LOOKING = frozenset("--stat --numstat --summary --check".split())
"""Options with which `git apply` changes nothing."""


@attrs.define
class _Git:
    """A Git command.

    Attributes:
        call: The program, in the folders that `-C` selects.
        verb: The sub-command.
        rest: The words after the sub-command.
        parsed: The options and operands in ``rest``.
        front: The command's words before the sub-command.
    """

    call: Invocation
    verb: str
    rest: tuple[str, ...]
    parsed: Parsed
    front: tuple[str, ...]

    @property
    def operands(self) -> tuple[str, ...]:
        """The operands of the sub-command."""
        return self.parsed.operands

    @property
    def pathspecs(self) -> tuple[str, ...]:
        """The words after `--`."""
        return self.rest[self.rest.index("--") + 1 :] if "--" in self.rest else ()


def find_sub_command(words: Sequence[str]) -> int:
    """Return the position of the sub-command among the words after `git`."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _FRONT_VALUED else 1
    return min(at, len(words))


def git_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a Git command's words without the options before its sub-command."""
    return ("git", *words[1 + find_sub_command(words[1:]) :])


def get_syntax(verb: str) -> options.Syntax:
    """Return a Git sub-command's options that take a value."""
    return _INIT if verb == "init" else options.valued_only(_VALUED.get(verb, _MESSAGE))


def read_git(call: Invocation, *, is_here: bool = True, has_tree: bool = False) -> None:
    """Add the effects of a Git command.

    Args:
        call: The command.
        is_here: Whether the working folder determines the repository, and not a variable.
        has_tree: Whether a variable names another working tree.
    """
    at = find_sub_command(call.words)
    verb = call.words[at] if at < len(call.words) else ""
    rest = call.words[at + 1 :]
    git = _Git(call, verb, rest, options.parse(rest, get_syntax(verb)), call.words[:at])
    if verb not in _READ_ONLY:
        _read_front(git)
    tops = _find_other_tops(git, has_tree=has_tree)
    _enter_folders(git)
    _add_from_other_tree(git, tops)
    _read_stored(git, is_here=is_here)
    _read_outputs(git)
    read_verb = _VERBS.get(verb)
    is_read = read_verb is not None and read_verb(git)
    if not is_read and verb not in _READ_ONLY:
        call.mention(rest)


def _read_front(git: _Git) -> None:
    """Assume that options other than `-C` may change anything."""
    known = git.call.unknown
    git.call.mention(git.front)
    before = ""
    for word in git.front:
        if word.startswith("-") and word != "-C" and before not in _FRONT_VALUED:
            return
        before = word
    git.call.unknown = known


def _enter_folders(git: _Git) -> None:
    """Follow `-C` and `--work-tree`: later paths are relative to the folder that they set."""
    front = git.front
    for number, word in enumerate(front):
        name, equals, value = word.partition("=")
        if name not in ("-C", "--work-tree"):
            continue
        folder = value if equals else "".join(front[number + 1 : number + 2])
        git.call.cwds = tuple(_enter(cwd, folder) for cwd in git.call.cwds)


def _find_other_tops(git: _Git, *, has_tree: bool) -> tuple[str | None, ...]:
    """Return the tops of the repositories whose index gets files of another tree, if any does."""
    front = git.front
    has_tree = has_tree or any(word.startswith("--work-tree") for word in front)
    if git.verb not in _ADDING or not has_tree:
        return ()
    before = git.call.cwds
    for number, word in enumerate(front):
        if word == "-C":
            folder = "".join(front[number + 1 : number + 2])
            git.call.cwds = tuple(_enter(cwd, folder) for cwd in git.call.cwds)
    tops = tuple(map(_find_top, _enter_git_folder(git)))
    git.call.cwds = before
    return tops


def _add_from_other_tree(git: _Git, tops: tuple[str | None, ...]) -> None:
    """Add what `git --work-tree=DIR add` changes in the index, which names the repository's files."""
    if not tops:
        return
    adds_all = git.verb == "commit" or any(re.match(r"-[a-zA-Z]*[Au]|--all", w) for w in git.rest)
    before = git.call.cwds
    git.call.cwds = tops
    for path in [".", *git.operands] if adds_all else git.operands:
        git.call.access("write", path, deep="all")
    git.call.cwds = before


def _enter(cwd: str | None, folder: str) -> str | None:
    """Return the working folder after a change of folder, or None if unknown."""
    folder = os.path.expanduser(folder)
    if UNKNOWN in folder or (cwd is None and not folder.startswith("/")):
        return None
    return os.path.join(cwd or "/", folder)


def _read_stored(git: _Git, *, is_here: bool) -> None:
    """Add the repository contents that a Git command shows."""
    call = git.call
    cwds = call.cwds
    tops = tuple(_find_top(cwd) if is_here else None for cwd in _enter_git_folder(git))
    left_out_here = _find_left_out(git)
    for shown in git_objects.find_shown_contents(git.verb, git.rest, call.exists):
        call.cwds = tops if shown.top else cwds
        path = shown.path or "."
        deep: Depth = "some" if shown.deep else ""
        left_out = left_out_here if deep else ()
        access = FileAccess("read", path, deep, certain=shown.certain, stored=True)
        call.add(attrs.evolve(access, left_out=left_out))
    call.cwds = cwds


def _find_left_out(git: _Git) -> tuple[str, ...]:
    """Return absolute patterns of the files that pathspecs such as `:!docs/x.md` leave out."""
    folder = git.call.cwds[0]
    if len(git.call.cwds) != 1 or folder is None:
        return ()
    found = []
    for path, is_top in git_objects.find_left_out(git.rest):
        base = _find_top(folder) if is_top else folder
        found.append(os.path.normpath(os.path.join(os.path.realpath(base or "/"), path)))
    return tuple(found)


def _enter_git_folder(git: _Git) -> tuple[str | None, ...]:
    """Return the Git folder that `--git-dir` selects, or the working folders without that option."""
    front = git.front
    for number, word in enumerate(front):
        name, equals, value = word.partition("=")
        if name == "--git-dir":
            folder = value if equals else "".join(front[number + 1 : number + 2])
            return tuple(_enter(cwd, folder) for cwd in git.call.cwds)
    return git.call.cwds


def _find_top(cwd: str | None) -> str | None:
    """Return the root of a folder's repository, or the folder itself if it is in no repository."""
    return cwd if cwd is None else find_git_top(os.path.normpath(cwd)) or cwd


def _read_outputs(git: _Git) -> None:
    names = frozenset(("--output",))
    if git.verb in ("format-patch", "archive"):
        names = frozenset(("-o", "--output", "--output-directory"))
    for path in options.parse(git.rest, options.valued_only(names)).values(*names):
        git.call.access("write", path, deep="some" if git.verb == "format-patch" else "")


# --- sub-commands: each function returns whether the whole command is read -----------------------


def _read_removal(git: _Git) -> bool:
    # With `--cached`, the file stays in the folder, but the next commit removes it from the
    # repository.
    is_cached = "--cached" in git.rest
    if not _is_dry(git):
        listed = [UNKNOWN] if git.parsed.has("--pathspec-from-file") else []
        for pathspec in (*git.operands, *listed):
            path = _find_path(git, pathspec)
            git.call.access("delete", path, deep="all", generated=is_cached, moved=is_cached)
    return True


def _find_path(git: _Git, pathspec: str) -> str:
    """Return the path that a pathspec names; `:/gen` is relative to the top of the repository."""
    if not pathspec.startswith(":"):
        return pathspec
    from_top = re.fullmatch(r":(?:/|\(top\))(?![!^:])(.*)", pathspec, re.DOTALL)
    tops = {_find_top(cwd) for cwd in git.call.cwds}
    top = tops.pop() if len(tops) == 1 else None
    return os.path.join(top, from_top[1]) if from_top and top is not None else UNKNOWN


def _is_dry(git: _Git) -> bool:
    return any(re.fullmatch(r"-[a-z]*n[a-z]*|--dry-run", word) for word in git.rest)


def _read_move(git: _Git) -> bool:
    *sources, target = git.operands or ("",)
    git.call.copy(sources, target, moves=True)
    return True


def _read_restore(git: _Git) -> bool:
    """Read `git checkout` and `git restore` with paths."""
    paths = git.pathspecs
    takes_revision = any(word.startswith(("-s", "--source")) for word in git.rest)
    if git.verb == "checkout":
        takes_revision = takes_revision or len(git.operands) > len(paths)
    elif not paths:
        paths = git.operands
    if paths:
        # Restoring from another revision may change every file; restoring from the index changes
        # only edited files.
        left_out = _find_left_out(git)
        for path in paths:
            if git_objects.read_left_out(path) is not None:
                continue
            depth: Depth = "all" if takes_revision else "some"
            git.call.access("write", path, deep=depth, generated=True, left_out=left_out)
        return True
    # Without `--`, the first word may be a revision or a path.
    for number, path in enumerate(git.operands):
        if number > 0 or git.call.exists(path):
            depth = "all" if len(git.operands) > 1 else "some"
            git.call.access("write", path, deep=depth, generated=True)
    return False


def _read_clean(git: _Git) -> bool:
    """Read `git clean`, which deletes untracked files, but ignored files only with `-x`."""
    if _is_dry(git):
        return True
    paths = git.operands or (".",)
    spares = any(re.match(r"-[a-zA-Z]*[eiX]|--(?:exclude|interactive)", word) for word in git.rest)
    takes_ignored = any(re.match(r"-[a-zA-Z]*x", word) for word in git.rest)
    # Which files are untracked depends on the disk.
    for cwd in git.call.cwds:
        deleted = FileAccess("delete", "{}", generated=True, cwds=(cwd,))
        git.call.found.append(
            FoundFiles(
                UntrackedQuery(paths, cwd, takes_ignored and not spares),
                (deleted,),
                tuple(attrs.evolve(deleted, path=path) for path in paths),
            )
        )
    return False


def _read_add(git: _Git) -> bool:
    for path in git.operands:
        git.call.access("read", path)
    return True


def _read_bundle(git: _Git) -> bool:
    if git.operands[:1] == ("create",):
        for path in git.operands[1:2]:
            git.call.access("write", path)
    return True


def _read_clone(git: _Git) -> bool:
    operands = git.operands
    if operands:
        named = os.path.basename(re.sub(r"(/?\.git)?/?$", "", operands[0]))
        git.call.access("write", operands[1] if len(operands) > 1 else named, deep="some")
    return False


def _read_added_folder(git: _Git) -> bool:
    """Read `git worktree add FOLDER` and `git submodule add ADDRESS FOLDER`."""
    position = 1 if git.verb == "worktree" else 2
    if git.operands[:1] == ("add",):
        for path in git.operands[position : position + 1]:
            git.call.access("write", path, deep="some")
    return False


def _read_config(git: _Git) -> bool:
    if len(git.operands) > 1:
        for path in git.parsed.values("-f", "--file")[-1:]:
            git.call.access("write", path)
    return True


def _read_checkout_index(git: _Git) -> bool:
    for path in git.parsed.values("--prefix")[-1:]:
        git.call.access("write", path, deep="some")
    for path in git.operands:
        git.call.access("write", path, existing=True)
    return False


def _read_update_index(git: _Git) -> bool:
    """Read `git update-index`, which changes the files of the next commit."""
    rest = git.rest
    for number, word in enumerate(rest):
        info = _CACHE_INFO.fullmatch(word.removeprefix("--cacheinfo="))
        if info:
            git.call.access("write", info[1])
        elif word == "--cacheinfo" and "," not in "".join(rest[number + 1 : number + 2]):
            for path in rest[number + 3 : number + 4]:
                git.call.access("write", path)
        elif word == "--force-remove":
            for path in rest[number + 1 :]:
                git.call.access("delete", path)
    if "--index-info" in rest:
        named = _INDEX_LINE.findall(git.call.stdin or UNKNOWN)
        for path in named or (UNKNOWN,):
            git.call.access("write", path)
    return _read_checkout_index(git)


def _read_reset(git: _Git) -> bool:
    """Read `git reset REVISION PATH`, which puts an older file into the next commit."""
    paths = git.pathspecs
    revisions = git.operands[: len(git.operands) - len(paths)]
    if not paths and revisions and not git.call.exists(revisions[0]):
        paths = revisions[1:]
    if revisions and revisions[0] not in ("HEAD", "@"):
        for path in paths:
            git.call.access("write", path, deep="all")
    return False


def _read_apply(git: _Git) -> bool:
    parsed = git.parsed
    if parsed.has("--apply") or not parsed.has(*_LOOKING):
        # Unlike `patch`, `git apply` removes the first folder of each name by default.
        strip = git.rest if parsed.has("-p") else ("-p1",)
        folder = "".join(parsed.values("--directory")[-1:])
        if not git.call.patch(strip, parsed.operands, folder):
            git.call.access("write", UNKNOWN)
    return False


def _read_init(git: _Git) -> bool:
    """Read `git init`, which creates the folder `.git` and, if missing, its parent."""
    parsed = git.parsed
    folder = parsed.operands[0] if parsed.operands else "."
    if not parsed.has("--bare") and git.call.is_folder(folder):
        folder = os.path.join(folder, ".git")
    git.call.access("write", folder, deep="some")
    for path in parsed.values("--separate-git-dir"):
        git.call.access("write", path, deep="some")
    for path in parsed.values("--template"):
        git.call.access("read", path, deep="some")
    return not parsed.unknown


def _read_hash_object(git: _Git) -> bool:
    _read_add(git)
    return False  # with `--stdin-paths`, it reads files that its words do not name


_VERBS: dict[str, Callable[[_Git], bool]] = {
    "rm": _read_removal,
    "mv": _read_move,
    "checkout": _read_restore,
    "restore": _read_restore,
    "clean": _read_clean,
    "add": _read_add,
    "stage": _read_add,
    "bundle": _read_bundle,
    "clone": _read_clone,
    "worktree": _read_added_folder,
    "submodule": _read_added_folder,
    "config": _read_config,
    "checkout-index": _read_checkout_index,
    "update-index": _read_update_index,
    "reset": _read_reset,
    "apply": _read_apply,
    "am": _read_apply,
    "init": _read_init,
    "hash-object": _read_hash_object,
}
