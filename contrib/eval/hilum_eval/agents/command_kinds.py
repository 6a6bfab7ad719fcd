"""Finds out what a shell command is for, so that agents with only a shell are counted like others."""

from __future__ import annotations

import re
from typing import Literal

CommandKind = Literal["read", "search", "edit", "run"]

# What comes before the program: a change of the folder, and variables.
_PREFIX = re.compile(r"^\s*(?:cd\s+\S+\s*(?:&&|;)\s*|\w+=\S*\s+)+")
_READ = re.compile(r"(?:cat(?!\s*(?:>|<<|-\s*>))|nl|head|tail|less|more|bat|sed\s+-n|wc)\b")
_SEARCH = re.compile(r"(?:grep|rg|ag|ack|find|fd|ls|tree|git\s+grep|git\s+ls-files)\b")
_EDIT = re.compile(
    r"(?:sed\s+(?:-\w*i|--in-place)|perl\s+-\w*i|(?:patch|git\s+apply|tee|ed|ex)\b|cat\s*(?:>|<<|-\s*>))"
)
# A script in the command itself that writes a file.
_SCRIPT = re.compile(r"(?:python[\d.]*|node|ruby)\s+(?:-\s*)?(?:-c\b|-e\b|<<)")
_WRITES = re.compile(r"write_text|\.write\(|writeFile|open\([^)]*[\"'][wa]")


def find_kind(command: str) -> CommandKind:
    """Return what a command is for, judged by its first program.

    Args:
        command: The command line.
    """
    bare = _PREFIX.sub("", command).strip()
    if _EDIT.match(bare) or (_SCRIPT.match(bare) and _WRITES.search(bare)):
        return "edit"
    if re.match(r"(?:echo|printf)\b[^|;&]*>", bare):
        return "edit"
    if _READ.match(bare):
        return "read"
    if _SEARCH.match(bare):
        return "search"
    return "run"
