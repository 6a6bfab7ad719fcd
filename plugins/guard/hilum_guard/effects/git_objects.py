"""Find the repository contents that a Git command shows or copies from the object database.

No sandbox can hide a path in the object database. A command that names no files may show all files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from hilum_guard.effects.file_access import UNKNOWN


class Shown(NamedTuple):
    """Contents that a Git command shows.

    Attributes:
        path: The path of the contents; empty for everything.
        top: Whether the path is relative to the top of the repository instead of the working
            folder.
        deep: Whether everything below the path is shown as well.
        certain: Whether the path is certainly shown.
    """

    path: str
    top: bool = False
    deep: bool = True
    certain: bool = True


EVERYTHING = Shown("", top=True, certain=False)
EVERYTHING_HERE = Shown(".", certain=False)

# Commands that show contents or copy them elsewhere, unless an option prevents that.
_ALWAYS = frozenset(
    """show cat-file diff grep blame annotate archive format-patch checkout-index fast-export
    bundle difftool range-diff merge-file merge-tree mergetool unpack-file clone worktree gui
    citool instaweb daemon upload-pack upload-archive http-backend send-email fsck filter-branch
    filter-repo subtree request-pull diff-pairs""".split()
)
# Commands that show contents only with a patch option.
_WITH_PATCH = frozenset(
    """log reflog stash whatchanged diff-tree diff-index diff-files status commit add stage
    checkout reset restore shortlog bisect rev-list notes tag""".split()
)
_PATCH = re.compile(
    r"-p|-u|--patch(-with-\w+)?|-U\d*|--unified(=.*)?|-c|--cc|-W|--function-context|--binary"
    r"|--word-diff.*|--color-words.*|-L.*|--remerge-diff|--full-diff|-i|--interactive|-e|--edit"
)
# With one of these options and without a patch option, these commands show no contents.
_SUMMARY = re.compile(
    r"--(stat|shortstat|numstat|dirstat|name-only|name-status|summary|raw|no-patch|quiet"
    r"|compact-summary|cumulative)(=.*)?|-s|-q"
)
_VALUED = frozenset(
    """-n -S -G -O -l -b -B -e -f -A -C -m -M --max-count --skip --since --until --author --grep
    --format --pretty --output -o --prefix --depth --branch --origin --reference --template
    --upload-pack --config -c -u --range-diff --base -v --start-number --suffix --to --cc
    --in-reply-to --max-depth --threads -L --reason --filter --orphan""".split()
)


_ADD_PATCH = re.compile(r"-\w*[pie]\w*|--(patch|interactive|edit)")
_COMMIT_PATCH = re.compile(r"-p|--patch|--interactive|-\w*v\w*|--verbose")
# For some commands, the options that show patches are only some of those that `_PATCH` matches.
_PATCH_OPTIONS = {
    **dict.fromkeys(("status", "commit"), _COMMIT_PATCH),
    **dict.fromkeys(("add", "stage"), _ADD_PATCH),
    **dict.fromkeys(
        "tag notes rev-list shortlog checkout reset restore".split(), re.compile(r"-p|--patch")
    ),
}
_WITH_SUMMARY = frozenset(("diff", "show", "range-diff", "diff-pairs"))
# Options that take no value in these commands, although they take one in others.
_FLAGS = {
    **dict.fromkeys(("diff", "show", "log"), frozenset("-b -B -M -C -u -c --cc -m".split())),
    "grep": frozenset(("-v", "-l", "-n", "-c")),
    "worktree": frozenset(("-f",)),
}
_WITH_MESSAGE = frozenset(
    "commit tag notes merge interpret-trailers commit-tree stripspace".split()
)


def find_shown_contents(
    verb: str, rest: Sequence[str], is_path: Callable[[str], bool]
) -> Iterator[Shown]:
    """Yield the repository contents that a Git command shows.

    Args:
        verb: The sub-command.
        rest: The words after it.
        is_path: Returns whether a word is an existing path; other words are revisions.
    """
    yield from _find_message_files(verb, rest)
    yield from _find_stored_elsewhere(verb, rest)
    if verb == "config":
        yield from _find_config_files(rest)
    elif verb == "read-tree":
        for word in rest:
            if ":" in word and not word.startswith("-"):
                yield Shown(word.partition(":")[2], top=True)
            elif word.startswith("--prefix"):  # a copy of whole trees in another folder
                yield EVERYTHING
    elif _shows_contents(verb, rest):
        operands, paths = _split(verb, rest)
        if verb == "clone":
            yield from _find_cloned(operands)
        elif verb == "worktree":
            # The other sub-commands copy nothing.
            if operands[:1] == ["add"]:
                yield EVERYTHING
        elif "--no-index" in rest:
            yield from map(Shown, (*operands, *paths))
        else:
            yield from _find_named(verb, rest, operands, paths, is_path)


def _find_named(
    verb: str,
    rest: Sequence[str],
    operands: list[str],
    paths: list[str],
    is_path: Callable[[str], bool],
) -> Iterator[Shown]:
    """Yield the contents that operands name; everything if they do not name any."""
    if verb == "bundle" and operands[:1] != ["create"]:
        return
    operands = _drop_leading_text(verb, rest, operands)
    stored = [word for word in operands if _is_in_revision(word)]
    # A word that is known only at run time may name a path.
    existing = [
        word for word in operands if word not in stored and (UNKNOWN in word or is_path(word))
    ]
    revisions = [word for word in operands if word not in stored and word not in existing]
    named = [*_find_in_pathspecs(paths), *_find_in_line_ranges(rest)]
    for word in stored:
        named += _read_path_in_revision(word)
    if "--" not in rest:
        if verb in _LAST_IS_PATH and operands[-1:] == revisions[-1:]:
            existing += operands[-1:]
        named += map(Shown, existing)
    if stored and not named and not revisions:
        return  # this form shows the names in a tree, but no contents
    yield from named
    # `git show REV:path REV` shows all of the second revision, which may be a file, as in `git diff`.
    shows_revision = verb in _SHOWS_OBJECTS and stored and revisions
    # A hash may be that of a folder, whose files have other paths.
    shows_tree = any(_MAY_BE_TREE.match(word) and not is_path(_path_of(word)) for word in stored)
    if shows_revision or shows_tree or not named:
        yield EVERYTHING_HERE if verb in ("grep", "archive") else EVERYTHING


def _find_stored_elsewhere(verb: str, rest: Sequence[str]) -> Iterator[Shown]:
    """Yield the contents that a command stores under another name, where Git then shows them."""
    objects: list[str] = []
    if verb == "notes":
        for word, following in pairwise((*rest, "")):
            attached = re.fullmatch(r"(?:-[Cc]|--reuse-message=|--reedit-message=)(.+)", word)
            if attached:
                objects.append(attached[1])
            elif word in ("-C", "-c", "--reuse-message", "--reedit-message"):
                objects.append(following)
    elif verb == "replace":
        operands = [word for word in rest if not word.startswith("-")]
        if {"-d", "--delete", "-l", "--list", "-g", "--graft"}.isdisjoint(rest):
            objects += operands[1:2] or (operands if "--edit" in rest or "-e" in rest else [])
    elif verb == "update-index":
        for word, following in pairwise((*rest, "")):
            if word.startswith("--cacheinfo"):
                given = word.partition("=")[2] or following
                objects.append(given.split(",")[1] if "," in given else UNKNOWN)
    for word in objects:
        named = _read_path_in_revision(word) if _is_in_revision(word) else []
        yield from named or [EVERYTHING]


_SHOWS_OBJECTS = frozenset("show cat-file diff difftool diff-pairs range-diff".split())
_MAY_BE_TREE = re.compile(rf"(?:[0-9a-f]{{7,64}}|[^:{UNKNOWN}]*+{UNKNOWN}[^:]*+):")


def _path_of(word: str) -> str:
    return word.partition(":")[2]


_LAST_IS_PATH = frozenset(("blame", "annotate", "checkout-index"))
"""Commands whose last operand is a path even if there is no such file."""


def _find_in_pathspecs(paths: Sequence[str]) -> Iterator[Shown]:
    for word in paths:
        yield from _read_pathspec(word)


def _find_in_line_ranges(rest: Sequence[str]) -> Iterator[Shown]:
    """Yield the files in `git log -L1,2:FILE`."""
    for word in rest:
        line_range = re.match(r"-L(?:.*?):?([^:]+)$", word)
        if line_range:
            yield Shown(line_range[1])


def _drop_leading_text(verb: str, rest: Sequence[str], operands: list[str]) -> list[str]:
    """Return the operands without the `git grep` pattern or the `git stash` verb."""
    if verb == "grep" and {"-e", "-f"}.isdisjoint(rest):
        return operands[1:]
    if verb == "stash" and operands[:1] in (["show"], ["list"]):
        return operands[1:]
    return operands


def _find_cloned(operands: list[str]) -> Iterator[Shown]:
    """Yield the local repository that is cloned."""
    source = "".join(operands[:1]).removeprefix("file://")
    if source and not re.match(r"\w[\w+.-]*://|[\w.@-]+:(?!/\w*:)", source):
        yield Shown(source, certain=False)


def _shows_contents(verb: str, rest: Sequence[str]) -> bool:
    options = [word for word in rest if word.startswith("-")]
    if verb in _WITH_PATCH:
        pattern = _PATCH_OPTIONS.get(verb, _PATCH)
        if verb == "stash" and {"show", "list"}.isdisjoint(rest):
            pattern = _ADD_PATCH  # `-u` means to stash untracked files, too
        return any(map(pattern.fullmatch, options))
    if verb not in _ALWAYS:
        return False
    if verb == "cat-file":
        # These options show only the type, size or existence of an object.
        return {"-t", "-s", "-e"}.isdisjoint(options)
    if verb == "fsck":
        # `--lost-found` writes the contents of unreachable objects to files.
        return "--lost-found" in rest
    if verb == "request-pull":
        return "-p" in options
    if verb in _WITH_SUMMARY and any(map(_SUMMARY.fullmatch, options)):
        return any(map(_PATCH.fullmatch, options))
    return True


def _split(verb: str, rest: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the operands before `--`, and the words after it."""
    at = list(rest).index("--") if "--" in rest else len(rest)
    flags = _FLAGS.get(verb, frozenset())
    operands: list[str] = []
    is_value = False
    for word in rest[:at]:
        if is_value:
            is_value = False
        elif not word.startswith("-") or word == "-":
            operands.append(word)
        else:
            is_value = word in _VALUED and word not in flags
    return operands, list(rest[at + 1 :])


def _is_in_revision(word: str) -> bool:
    """Return whether a word refers to a path in a revision: `HEAD:docs/x.md`, `:docs/x.md`."""
    # `:/text` names a commit by its message (gitrevisions(7)), and the other prefixes are pathspec
    # magic (gitglossary(7)).
    return ":" in word and not word.startswith((":/", ":(", ":!", ":^"))


def _read_path_in_revision(word: str) -> list[Shown]:
    """Return the path in `REVISION:PATH`; nothing for a whole tree."""
    revision, _, path = word.partition(":")
    if not revision:
        # During a merge, `:2:path` names one of a file's versions in the index.
        path = re.sub(r"^[0-3]:", "", path)
    is_relative = path.startswith(("./", "../"))
    return [Shown(path, top=not is_relative)] if path else []


def _read_pathspec(word: str) -> list[Shown]:
    """Return the files that a pathspec after `--` includes."""
    top = False
    if word.startswith(":("):
        magic, _, word = word[2:].partition(")")
        if "exclude" in magic:
            return []
        top = "top" in magic
    elif word.startswith(":"):
        path = re.sub(r"^:[/!^]*:?", "", word)
        signs = word[: len(word) - len(path)]
        if "!" in signs or "^" in signs:
            return []
        top = "/" in signs
        word = path
    start = "" if top else "."
    pattern = re.search(r"[*?\[]", word)
    if pattern is None:
        return [Shown(word or start, top=top)]
    # Git's `*` also matches slashes, so everything below the preceding folder is included.
    folder = os.path.dirname(word[: pattern.start()])
    return [Shown(folder or start, top=top, certain=False), Shown(word, top=top, certain=False)]


_LEFT_OUT = re.compile(r":(?:(/?)[!^](/?):?|\((?:(top),)?exclude(?:,(top))?\))(?![(!^:])(.+)")


def read_left_out(word: str) -> tuple[str, bool] | None:
    """Return the path in a pathspec such as `:!docs/x.md`, and whether the top is its folder.

    Args:
        word: The pathspec.

    Returns:
        The path, or ``None`` if the pathspec does not leave out files, or cannot be read.
    """
    match = _LEFT_OUT.fullmatch(word)
    if match is None or UNKNOWN in word or "\\" in word:
        return None
    return match[5], any(match.group(1, 2, 3, 4))


def find_left_out(rest: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the paths that pathspecs leave out, each with whether the top is its folder.

    Args:
        rest: The words after the sub-command.
    """
    end = list(rest).index("--") if "--" in rest else len(rest)
    for at, word in enumerate(rest):
        # A word after an option may be its value.
        is_operand = at > end or at == 0 or not rest[at - 1].startswith("-")
        found = read_left_out(word) if is_operand else None
        if found is not None:
            yield found


def _find_message_files(verb: str, rest: Sequence[str]) -> Iterator[Shown]:
    """Yield the files used as commit messages, which `git log` then shows: `git commit -F FILE`."""
    if verb not in _WITH_MESSAGE:
        return
    for before, word in pairwise(rest):
        if before in ("-F", "--file", "-t", "--template"):
            yield Shown(word, deep=False)
    for word in rest:
        attached = re.fullmatch(r"(?:--file=|--template=|-F)(.+)", word)
        if attached:
            yield Shown(attached[1], deep=False)
        elif verb == "interpret-trailers" and not word.startswith("-"):
            yield Shown(word, deep=False)


def _find_config_files(rest: Sequence[str]) -> Iterator[Shown]:
    before = ""
    for word in rest:
        if before in ("-f", "--file"):
            yield Shown(word, deep=False)
        elif before == "--blob" or word.startswith("--blob="):
            path = word.rpartition("=")[2].partition(":")[2]
            yield Shown(path, top=True, deep=False)
        elif word.startswith("--file="):
            yield Shown(word.removeprefix("--file="), deep=False)
        before = word
