"""Which contents of a repository a Git command shows or copies: from its objects, where the sandbox
cannot hide a path.

Where a command does not say which files it shows, it may show all of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple


class Shown(NamedTuple):
    """Contents that a Git command shows.

    Attributes:
        path: The path; empty for everything.
        top: Whether it is relative to the top of the repository, not to the working folder.
        deep: Whether everything below is shown as well.
        certain: Whether it is shown for sure.
    """

    path: str
    top: bool = False
    deep: bool = True
    certain: bool = True


EVERYTHING = Shown("", top=True, certain=False)
EVERYTHING_HERE = Shown(".", certain=False)

# They show contents, or copy them to another place, unless an option says otherwise.
_ALWAYS = frozenset(
    """show cat-file diff grep blame annotate archive format-patch checkout-index fast-export bundle difftool range-diff
    merge-file merge-tree mergetool unpack-file clone worktree gui citool instaweb daemon upload-pack upload-archive
    http-backend send-email fsck filter-branch filter-repo subtree request-pull diff-pairs""".split()
)
# They show contents with an option for patches.
_WITH_PATCH = frozenset(
    """log reflog stash whatchanged diff-tree diff-index diff-files status commit add stage checkout reset restore shortlog
    bisect rev-list notes tag""".split()
)
_PATCH = re.compile(
    r"-p|-u|--patch(-with-\w+)?|-U\d*|--unified(=.*)?|-c|--cc|-W|--function-context|--binary|--word-diff.*|--color-words.*"
    r"|-L.*|--remerge-diff|--full-diff|-i|--interactive|-e|--edit"
)
_VERBOSE = re.compile(r"-\w*v\w*|--verbose")
# With one of them, and without an option for patches, no contents are shown.
_SUMMARY = re.compile(
    r"--(stat|shortstat|numstat|dirstat|name-only|name-status|summary|raw|no-patch|quiet|compact-summary|cumulative)(=.*)?|-s|-q"
)
_VALUED = frozenset(
    """-n -S -G -O -l -b -B -e -f -A -C -m -M --max-count --skip --since --until --author --grep --format --pretty --output -o
    --prefix --depth --branch --origin --reference --template --upload-pack --config -c -u --range-diff --base -v
    --start-number --suffix --to --cc --in-reply-to --max-depth --threads -L --reason --filter --orphan""".split()
)


def shown(verb: str, rest: Sequence[str], is_path: Callable[[str], bool]) -> Iterator[Shown]:
    """Yield what a Git command shows of the contents of a repository.

    Args:
        verb: The sub-command.
        rest: The words after it.
        is_path: Returns whether a word is an existing path; others are revisions.
    """
    yield from _message_files(verb, rest)
    if verb == "config":
        yield from _config_files(rest)
        return
    if verb == "read-tree":
        yield from (
            Shown(word.partition(":")[2], top=True)
            for word in rest
            if ":" in word and not word.startswith("-")
        )
        return
    if not _shows_contents(verb, rest):
        return
    operands, paths = _split(verb, rest)
    named = [each for word in paths for each in _pathspec(word)]
    ended = "--" in rest
    if verb == "worktree":
        yield from [EVERYTHING] if operands[:1] == ["add"] else []
        return
    if verb == "clone":
        yield from (
            [EVERYTHING]
            if operands and not re.match(r"\w[\w+.-]*://|[\w.@-]+:(?!/\w*:)", operands[0])
            else []
        )
        return
    if verb == "bundle" and operands[:1] != ["create"]:
        return
    if verb == "fsck" and "--lost-found" not in rest:
        return
    if verb == "grep" and not {"-e", "-f"} & set(rest):
        operands = operands[1:]
    if verb == "stash" and operands[:1] in (["show"], ["list"]):
        operands = operands[1:]
    if "--no-index" in rest:
        yield from (Shown(word) for word in (*operands, *paths))
        return
    for word in rest:
        found = re.match(r"-L(?:.*?):?([^:]+)$", word)
        if found:
            named.append(Shown(found[1]))
    stored = [_stored(word) for word in operands if _is_stored(word)]
    named += [each for each in stored if each is not None]
    if not ended:
        named += [Shown(word) for word in operands if not _is_stored(word) and is_path(word)]
        if verb in ("blame", "annotate", "checkout-index"):
            named += [Shown(word) for word in operands[-1:] if not _is_stored(word)]
    revisions = [word for word in operands if not _is_stored(word) and not is_path(word)]
    if not named and stored and not revisions:
        return  # the names in a tree
    yield from named
    # `git show REV:path REV` shows all of the second one.
    if not named or (verb in ("show", "cat-file") and stored and revisions):
        yield EVERYTHING_HERE if verb in ("grep", "archive") else EVERYTHING


def _shows_contents(verb: str, rest: Sequence[str]) -> bool:
    options = [word for word in rest if word.startswith("-")]
    patch = any(_PATCH.fullmatch(word) for word in options)
    if verb in _WITH_PATCH:
        if verb in ("status", "commit"):
            patch = any(
                re.fullmatch(r"-p|--patch|--interactive", word) or _VERBOSE.fullmatch(word)
                for word in options
            )
        elif verb == "add" or verb == "stage":
            patch = any(
                re.fullmatch(r"-\w*[pie]\w*|--(patch|interactive|edit)", word) for word in options
            )
        elif verb in ("tag", "notes", "rev-list", "shortlog", "checkout", "reset", "restore"):
            patch = any(word in ("-p", "--patch") for word in options)
        return patch
    if verb not in _ALWAYS:
        return False
    if verb == "cat-file":
        return not {"-t", "-s", "-e"} & set(options)
    if verb in ("diff", "show", "range-diff", "diff-pairs") and any(
        _SUMMARY.fullmatch(word) for word in options
    ):
        return patch
    return not (verb == "request-pull" and "-p" not in options)


def _split(verb: str, rest: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the operands before `--`, and the words after it."""
    at = list(rest).index("--") if "--" in rest else len(rest)
    operands: list[str] = []
    skip = False
    for word in rest[:at]:
        if skip:
            skip = False
        elif not word.startswith("-") or word == "-":
            operands.append(word)
        elif word in _VALUED and not (
            verb in ("diff", "show", "log")
            and word in ("-b", "-B", "-M", "-C", "-u", "-c", "--cc", "-m")
        ):
            skip = not (verb == "grep" and word in ("-v", "-l", "-n", "-c")) and not (
                verb == "worktree" and word == "-f"
            )
    return operands, list(rest[at + 1 :])


def _is_stored(word: str) -> bool:
    """Return whether a word names a path in a revision: `HEAD:docs/x.md`, `:docs/x.md`."""
    return ":" in word and not word.startswith((":/", ":(", ":!", ":^"))


def _stored(word: str) -> Shown | None:
    revision, _, path = word.partition(":")
    if not revision:
        path = re.sub(r"^[0-3]:", "", path)
    if not path:
        return None
    relative = path.startswith(("./", "../"))
    return Shown(path, top=not relative)


def _pathspec(word: str) -> Iterator[Shown]:
    """Yield what a pathspec after `--` takes."""
    top = False
    if word.startswith(":("):
        magic, _, word = word[2:].partition(")")
        if "exclude" in magic:
            return
        top = "top" in magic
    elif word.startswith(":"):
        signs = re.match(r":[/!^]*:?", word)
        assert signs is not None
        if "!" in signs[0] or "^" in signs[0]:
            return
        top = "/" in signs[0]
        word = word[signs.end() :]
    magic_at = re.search(r"[*?\[]", word)
    if magic_at:
        # Git's `*` takes slashes, too: everything below the folder before it.
        yield Shown(
            os.path.dirname(word[: magic_at.start()]) or ("" if top else "."),
            top=top,
            certain=False,
        )
    else:
        yield Shown(word or ("" if top else "."), top=top)


def _message_files(verb: str, rest: Sequence[str]) -> Iterator[Shown]:
    """Yield the files that become a message: `git commit -F FILE` and its kin, which `git log` then
    shows.
    """
    if verb not in (
        "commit",
        "tag",
        "notes",
        "merge",
        "interpret-trailers",
        "commit-tree",
        "stripspace",
    ):
        return
    for before, word in pairwise(rest):
        if before in ("-F", "--file", "-t", "--template"):
            yield Shown(word, deep=False)
    for word in rest:
        found = re.fullmatch(r"--(?:file|template)=(.+)|-F(.+)", word)
        if found:
            yield Shown(found[1] or found[2], deep=False)
        elif verb == "interpret-trailers" and not word.startswith("-"):
            yield Shown(word, deep=False)


def _config_files(rest: Sequence[str]) -> Iterator[Shown]:
    for before, word in zip(("", *rest), rest, strict=False):
        if before in ("-f", "--file"):
            yield Shown(word, deep=False)
        elif before == "--blob" or word.startswith("--blob="):
            yield Shown(word.rpartition("=")[2].partition(":")[2], top=True, deep=False)
        elif word.startswith("--file="):
            yield Shown(word[7:], deep=False)
