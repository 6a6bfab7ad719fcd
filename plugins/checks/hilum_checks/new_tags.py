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
