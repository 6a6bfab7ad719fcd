"""Formats the results of ``search_files`` for the model and for faces."""

from __future__ import annotations

import os
from typing import NamedTuple

from hilum_search.matches import MatchCollector, MatchedFile, MatchedLine
from hilum_search.patterns import Pattern
from hilum_search.targets import SearchTarget, show

MAX_LINE_CHARACTERS = 300
MAX_REPORT_CHARACTERS = 40_000
MAX_NAMED_FILES = 3
"""Maximum number of files to name in a notice."""


class Excerpt(NamedTuple):
    """An excerpt from files as text, with the path and line number of each match in it."""

    text: str
    places: list[tuple[str, int]]


class SearchReport(NamedTuple):
    """The outcome of a search.

    Args:
        target: The files to be searched.
        pattern: The pattern of the search.
        found: The counted matches.
        shown: The first matches in path order, which are shown.
        searched: Number of files that were searched; ``None`` if unknown.
        limit: Maximum number of matching lines to show.
        timeout: Seconds after which the search was stopped; 0 if it completed.
    """

    target: SearchTarget
    pattern: Pattern
    found: MatchCollector
    shown: MatchCollector
    searched: int | None
    limit: int
    timeout: float

    def excerpt(self) -> Excerpt:
        """Return the first matching lines and their context, in the order of the paths."""
        return _format_files(sorted(self.shown.files, key=_path_order), self.limit)

    def text(self, excerpt: Excerpt) -> str:
        """Return the text for the model."""
        text = self._result(excerpt)
        if self.shown.unfinished:
            text += f"\n{_format_unfinished(self.shown.unfinished)}"
        return text

    def _result(self, excerpt: Excerpt) -> str:
        if self.timeout:
            return self._late(excerpt)
        matches = self.found.matches
        if not matches:
            return self._nothing_found()
        exact = matches <= self.found.max_matches
        count = f"{matches:,}" if exact else f"more than {self.found.max_matches:,}"
        lines = "1 matching line" if matches == 1 else f"{count} matching lines"
        if len(excerpt.places) == matches:
            files = _count(len(self.shown.files), "file")
            return f"{lines} in {files}\n{excerpt.text}"
        return (
            f"{lines}\n{excerpt.text}\n"
            f"[The first {len(excerpt.places)} of {count} matching lines are shown, in the order of"
            " the paths. To see the others, narrow path or glob, or use a more specific pattern.]"
        )

    def _late(self, excerpt: Excerpt) -> str:
        found = "No match was found before that."
        if excerpt.text:
            found = f"Found so far:\n{excerpt.text}"
        return (
            f"The search took longer than {self.timeout:g} s and was ended; the result is"
            " incomplete. Search a smaller folder (path), fewer files (glob), or for plain text"
            f" (literal).\n{found}"
        )

    def _nothing_found(self) -> str:
        if self.searched:
            result = f"No match in {_count(self.searched, 'file')} of {self.target.name}."
        else:
            result = f"No file was searched: none in {self.target.name} matches path and glob."
        suggestions = ", ".join(self._suggestions())
        return f"{result} {self._not_searched()}. To try: {suggestions}."

    def _not_searched(self) -> str:
        scope = self.target.scope
        text = "Not searched: "
        if not scope.include_ignored:
            text += "files that .gitignore and .ignore exclude, "
        text += "version control folders, binary files"
        if scope.max_size:
            text += f", files over {scope.max_size / 1e6:g} MB"
        return text

    def _suggestions(self) -> list[str]:
        scope = self.target.scope
        suggestions: list[str] = []
        if "\\|" in self.pattern.source:
            suggestions.append("a|b for one of two (\\| is the character itself)")
        if not self.pattern.ignore_case:
            suggestions.append("ignore_case")
        if self.target.has_filter or scope.names or scope.base != ".":
            suggestions.append("a wider path or glob")
        if not scope.include_ignored:
            suggestions.append("include_ignored")
        suggestions.append("a shorter pattern")
        return suggestions


def _path_order(file: MatchedFile) -> list[bytes]:
    # Like `--sort=path`, compare paths name by name, not character by character: `a/b` comes before
    # `a.b`.
    return os.fsencode(file.path).split(b"/")


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def _format_unfinished(paths: list[str]) -> str:
    names = ", ".join(show(path) for path in sorted(paths)[:MAX_NAMED_FILES])
    more = ", …" if len(paths) > MAX_NAMED_FILES else ""
    files = "1 file was" if len(paths) == 1 else f"{len(paths):,} files were"
    return (
        f"[{files} not searched to the end, because the pattern backtracks too much there"
        f" ({names}{more}). Use a simpler pattern.]"
    )


def _format_files(files: list[MatchedFile], limit: int) -> Excerpt:
    """Format files and their lines until enough matches or characters have been formatted."""
    blocks: list[str] = []
    places: list[tuple[str, int]] = []
    room = MAX_REPORT_CHARACTERS
    for file in files:
        if len(places) >= limit or room <= 0:
            break
        name = show(file.path)
        lines, numbers = _format_lines(file, limit - len(places), room)
        room -= sum(map(len, lines))
        places += [(name, number) for number in numbers]
        blocks.append("\n".join([name, *lines]))
    return Excerpt("\n\n".join(blocks), places)


def _format_lines(file: MatchedFile, limit: int, room: int) -> tuple[list[str], list[int]]:
    """Format the lines of a file, and return the numbers of its matching lines as well."""
    lines: list[str] = []
    numbers: list[int] = []
    last = 0
    for line in file.lines:
        is_match = line.column >= 0
        if is_match and (len(numbers) >= limit or room <= 0):
            break
        if is_match:
            numbers.append(line.number)
        if last and line.number > last + 1:
            # Like grep and ripgrep, mark a gap between lines with "--".
            lines.append("--")
        mark = ":" if is_match else "-"
        text = f"{line.number}{mark}{shorten(line)}"
        lines.append(text)
        room -= len(text)
        last = line.number
    return lines, numbers


def format_progress(file: MatchedFile) -> str:
    """Format a newly found file: its first matching line and the number of further matches."""
    first = next(line for line in file.lines if line.column >= 0)
    more = f" (and {file.matches - 1} more)" if file.matches > 1 else ""
    text = shorten(first).strip()
    return f"{show(file.path)}:{first.number}: {text}{more}\n"


def shorten(line: MatchedLine) -> str:
    """Return the text of a line, or only the part around the match if the line is long."""
    raw = line.text
    match = max(line.column, 0)
    # Only some bytes around the match are decoded, because a line may be as long as the whole file.
    begin = max(match - MAX_LINE_CHARACTERS, 0)
    # A character takes up to four bytes.
    end = match + 4 * MAX_LINE_CHARACTERS
    text = raw[begin:end].decode(errors="replace").rstrip("\r")
    start = 0
    if begin or len(text) > MAX_LINE_CHARACTERS:
        column = len(raw[begin:match].decode(errors="replace"))
        start = max(column - MAX_LINE_CHARACTERS // 3, 0)
    stop = start + MAX_LINE_CHARACTERS
    piece = text[start:stop]
    if begin + start > 0:
        piece = f"[…] {piece}"
    if stop < len(text) or end < len(raw):
        piece += f" [… {len(raw):,} bytes in total]"
    return piece
