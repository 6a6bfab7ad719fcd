"""Split shell text into statements without parsing it.

This module handles text that is too long or too unusual for the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_TEXT = 2_000_000
"""Maximum number of characters to search; no system accepts a longer command line."""
MAX_STATEMENT = 4_000
_HEREDOC = re.compile(r"<<-?\s*(\\?)(['\"]?)(\w+)\2")
# Only statements with one of these words can be destructive, so all others are skipped.
_SUSPECT = re.compile(
    r"\b(rm|dd|mkfs|newfs|shred|wipe|mv|chmod|chown|find|fd|kill|pkill|killall|git|tee|parted"
    r"|fdisk|sfdisk|sgdisk|cp|truncate"
    r"|format|diskutil|crontab|reboot|shutdown|halt|poweroff|rsync|unlink|trash|xargs|eval|perl"
    r"|init|sed|ln|tar|iptables)\b|>"
)


def split_statements(text: str) -> Iterator[str]:
    """Yield the potentially destructive statements in shell text, without here-documents."""
    seen: set[str] = set()
    for piece in _split(text[:MAX_TEXT]):
        short = re.sub(r"[ \t]+", " ", piece).strip(" \t(){}!")
        if short and len(short) <= MAX_STATEMENT and _SUSPECT.search(short) and short not in seen:
            seen.add(short)
            yield short


def _split(text: str) -> Iterator[str]:
    """Yield all statements in shell text."""
    start = 0
    at = 0
    waiting: list[str] = []  # here-documents whose bodies begin with the next line
    for found in re.finditer(
        r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|#[^\n]*|<<<?-?|[\n;&|]+", text, re.DOTALL
    ):
        if found.start() < at:
            continue
        token = found[0]
        if token[0] == "#" and found.start() and text[found.start() - 1] not in " \t\n;&|":
            continue
        if token[0] == "<":
            heredoc = None if token.startswith("<<<") else _HEREDOC.match(text, found.start())
            waiting += [heredoc[3]] if heredoc else []
        elif token[0] in "\n;&|":
            yield text[start : found.start()]
            start = found.end()
            if "\n" in token and waiting:
                start = at = _after(text, found.end(), waiting)
                waiting = []
        elif token[0] == "#":
            yield text[start : found.start()]
            start = found.end()
    yield text[start:]


def _after(text: str, at: int, names: list[str]) -> int:
    """Return the position after the here-documents that begin at the given position."""
    for name in names:
        end = re.compile(rf"^\t*{name}$", re.MULTILINE).search(text, at)
        at = end.end() if end else len(text)
    return at
