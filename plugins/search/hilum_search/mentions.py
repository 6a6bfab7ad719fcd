"""``find_mentions``: the files in which some words stand, best first, for plugins that show a model
where to look.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from hilum_search.content import SearchSettings, cut
from hilum_search.engine.ignoring import in_repository
from hilum_search.engine.patterns import Pattern
from hilum_search.places import show
from hilum_search.running import FoundFile, Scope, Search, search
from hilum_search.withholding import withheld_files

if TYPE_CHECKING:
    from hilum import Session

COUNTED = 2_000
"""Matches that are looked at."""
LARGEST = 1_000_000
"""Bytes of a file above which it is not searched."""
DEFINES = re.compile(
    rb"\b(?:class|def|func|fn|function|interface|struct|enum|trait|type|const|let|var)\s+$"
)


class Mention(NamedTuple):
    """A file in which words stand.

    Attributes:
        path: The file, relative to the workspace.
        lines: Number and text of each line with one of the words, long ones cut, in the file's
            order.
        words: Those of the words that stand in it.
    """

    path: str
    lines: tuple[tuple[int, str], ...]
    words: frozenset[str]


async def find_mentions(
    session: Session, words: Sequence[str], *, limit: int = 8, seconds: float = 1.0
) -> list[Mention]:
    """Find the files in which words stand as whole words. Ignore files hold, as for the tools.

    Args:
        session: Whose workspace.
        words: Names as they are written in programs; case counts.
        limit: Most files to give.
        seconds: How long it may take; after that it gives the best of what was found until then.

    Returns:
        Files, best first: a word that few files have counts more, and so does a line that defines
        it.

    Raises:
        ToolError: The search cannot be done.
    """
    if not words:
        return []
    withheld = await trio.to_thread.run_sync(withheld_files, session, ".")
    found = Search(lambda path: withheld is None or not withheld(path), lambda _: None, COUNTED)
    with trio.move_on_after(seconds):
        root = session.workspace.root
        repository = await trio.to_thread.run_sync(in_repository, str(root), abandon_on_cancel=True)
        pattern = Pattern(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
        scope = Scope(root, repository=repository, max_size=LARGEST)
        await search(
            session.processes, session.settings(SearchSettings).rg(), scope, pattern, 0, found
        )
    return await trio.to_thread.run_sync(_best, found.files, list(words), limit)


def _best(files: list[FoundFile], words: list[str], limit: int) -> list[Mention]:
    """Order files by the words in them."""
    word = re.compile(
        rb"(?<!\w)(?:" + b"|".join(re.escape(each.encode()) for each in words) + rb")(?!\w)"
    )
    had: dict[str, Counter[str]] = {}
    defined: dict[str, set[str]] = {}
    for file in files:
        counts = had.setdefault(file.path, Counter())
        defines = defined.setdefault(file.path, set())
        for line in file.lines:
            for match in word.finditer(line.text[:10_000]):
                name = match[0].decode()
                counts[name] += 1
                if DEFINES.search(line.text[: match.start()]):
                    defines.add(name)
    spread = Counter(name for counts in had.values() for name in counts)

    def worth(file: FoundFile) -> float:
        counts = had[file.path]
        return sum(
            (1 + 2 * (name in defined[file.path]) + 0.1 * min(counts[name], 5)) / spread[name]
            for name in counts
        )

    ordered = sorted(files, key=lambda file: (-worth(file), len(file.path), file.path))[:limit]
    return [
        Mention(
            show(f.path),
            tuple((line.number, cut(line)) for line in f.lines),
            frozenset(had[f.path]),
        )
        for f in ordered
    ]
