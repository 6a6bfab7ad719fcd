"""Finds files that mention given words, for plugins that point a model to relevant files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from hilum_search.matches import MatchCollector, MatchedFile
from hilum_search.patterns import Pattern
from hilum_search.report import shorten
from hilum_search.ripgrep import search, workspace_scope
from hilum_search.targets import show
from hilum_search.withholding import withheld_files

if TYPE_CHECKING:
    from hilum import Session

MAX_MATCHES = 2_000
MAX_FILE_BYTES = 1_000_000
# A minified file may consist of a single line of megabytes.
MAX_LINE_BYTES = 10_000
DEFINITION = re.compile(
    rb"\b(?:class|def|func|fn|function|interface|struct|enum|trait|type|const|let|var)\s+$"
)


class Mention(NamedTuple):
    """A file that mentions words.

    Attributes:
        path: The file, relative to the workspace.
        lines: Number and text of each line that contains one of the words, in order; long lines are
            truncated.
        words: The words that the file mentions.
    """

    path: str
    lines: tuple[tuple[int, str], ...]
    words: frozenset[str]


async def find_mentions(
    session: Session, words: Sequence[str], *, limit: int = 8, seconds: float = 1.0
) -> list[Mention]:
    """Find the files that mention any of the given whole words, except for ignored files.

    Args:
        session: The session whose workspace is searched.
        words: Names as they are written in code; case matters.
        limit: Maximum number of files.
        seconds: Time limit in seconds, after which the best files found so far are returned.

    Returns:
        The files, best first. Words that occur in few files and lines that define a word count
        more.

    Raises:
        ToolError: The search failed, or ripgrep is not installed.
    """
    if not words:
        return []
    withheld = await trio.to_thread.run_sync(withheld_files, session, ".")
    found = MatchCollector(
        lambda path: withheld is None or not withheld(path), lambda _: None, MAX_MATCHES
    )
    pattern = Pattern(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    with trio.move_on_after(seconds):
        scope = await trio.to_thread.run_sync(
            workspace_scope, session.workspace.root, MAX_FILE_BYTES, abandon_on_cancel=True
        )
        await search(session.processes, scope, pattern, 0, found)
    return await trio.to_thread.run_sync(_best_mentions, found.files, list(words), limit)


class _WordUse(NamedTuple):
    """How often a file uses each word, and which words it defines."""

    counts: Counter[str]
    defined: set[str]


def _best_mentions(files: list[MatchedFile], words: list[str], limit: int) -> list[Mention]:
    """Return the files ranked by the words that they use, best first."""
    alternatives = b"|".join(re.escape(word.encode()) for word in words)
    # ripgrep reports where a line matches, but not which word, and a line may have several.
    word_regex = re.compile(rb"(?<!\w)(?:" + alternatives + rb")(?!\w)")
    uses = {file.path: _word_use(file, word_regex) for file in files}
    files_with_word = Counter[str]()
    for use in uses.values():
        files_with_word.update(use.counts.keys())

    def rank(file: MatchedFile) -> tuple[float, int, str]:
        score = _score(uses[file.path], files_with_word)
        return -score, len(file.path), file.path

    mentions: list[Mention] = []
    for file in sorted(files, key=rank)[:limit]:
        lines = tuple((line.number, shorten(line)) for line in file.lines)
        used = frozenset(uses[file.path].counts)
        mentions.append(Mention(show(file.path), lines, used))
    return mentions


def _word_use(file: MatchedFile, word_regex: re.Pattern[bytes]) -> _WordUse:
    use = _WordUse(Counter(), set())
    for line in file.lines:
        for match in word_regex.finditer(line.text[:MAX_LINE_BYTES]):
            word = match[0].decode()
            use.counts[word] += 1
            if DEFINITION.search(line.text[: match.start()]):
                use.defined.add(word)
    return use


def _score(use: _WordUse, files_with_word: Counter[str]) -> float:
    score = 0.0
    for word, count in use.counts.items():
        # Repetition counts little: a file that uses more of the words is more relevant.
        weight = 1 + 0.1 * min(count, 5)
        if word in use.defined:
            weight += 2
        # As with the inverse document frequency in text search, a word that few files use counts
        # more.
        score += weight / files_with_word[word]
    return score
