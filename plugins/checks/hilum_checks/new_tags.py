"""Decide whether `git tag` creates a tag, or lists, verifies or deletes tags."""

from __future__ import annotations

from hilum_guard import UNKNOWN, parse_options

from hilum_checks.git_options import TAG
from hilum_checks.model import Words
from hilum_checks.path_matcher import Fit

_OTHER_MODES = ("-l", "--list", "-d", "--delete", "-v", "--verify")
# With one of these options, Git lists tags; `--sort` and `--format` do not suffice.
_LISTING = (
    "-n",
    "--contains",
    "--no-contains",
    "--merged",
    "--no-merged",
    "--points-at",
)


def match_new_tag(words: Words) -> Fit:
    """Return whether a command creates a tag.

    Args:
        words: The words of `git tag`, without options before the sub-command.
    """
    parsed = parse_options(words[2:], TAG)
    if parsed.has(*_OTHER_MODES):
        return ""
    # `git tag "$OPTIONS" v1` may list tags.
    if any(word.startswith((UNKNOWN, f"-{UNKNOWN}")) for word in words[2:]):
        return "maybe"
    if not parsed.operands or parsed.has(*_LISTING):
        return ""
    return "yes"


# Commands that create a tag among other things, each with the options with which they do not.
_TAGGING: dict[Words, tuple[str, ...]] = {
    ("gh", "release", "create"): ("--verify-tag",),
    ("gh", "release", "new"): ("--verify-tag",),
    ("glab", "release", "create"): (),
    ("glab", "release", "new"): (),
    ("npm", "version"): ("--no-git-tag-version", "--git-tag-version=false"),
    ("pnpm", "version"): ("--no-git-tag-version", "--git-tag-version=false"),
    ("yarn", "version"): ("--no-git-tag-version", "--no-git-tag"),
    ("lerna", "version"): ("--no-git-tag-version",),
    ("changeset", "tag"): (),
    ("standard-version",): ("--skip.tag", "--dry-run"),
    ("commit-and-tag-version",): ("--skip.tag", "--dry-run"),
}
_NEEDS_VERSION = frozenset(("npm", "pnpm"))


def match_release(words: Words) -> Fit:
    """Return whether a command of another program creates a tag: `npm version patch`.

    Args:
        words: The program and its arguments.
    """
    if not words:
        return ""
    named = (words[0].rpartition("/")[2], *words[1:])
    for start, options in _TAGGING.items():
        if named[: len(start)] != start:
            continue
        rest = named[len(start) :]
        # `npm version` alone only shows versions.
        operands = [word for word in rest if not word.startswith("-")]
        if {"--help", "-h", *options} & set(rest) or (start[0] in _NEEDS_VERSION and not operands):
            return ""
        return "maybe" if any(UNKNOWN in word for word in rest) and options else "yes"
    return ""
