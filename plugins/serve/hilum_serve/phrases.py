"""Recognizes hilum's own sentences, so that a client can show them in another language.

Reasons, dangers, notices and errors are English sentences, in the log as well as on every face. The
server sends the code and the values of the sentences that it knows next to them; a client without a
translation shows the sentence. Recognizing them here, and not where they are written, also covers
sessions that an earlier version has written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice
from typing import Any

import attrs
import msgspec

from hilum_serve.phrase_table import PHRASES

MAX_RECOGNIZED = 2_000
"""Characters of the longest text that is examined; hilum's own sentences are shorter."""
MAX_DEPTH = 3
"""Levels of sentences within sentences."""
MAX_BORDERS = 8
"""Number of places at which a text is examined for the end of a sentence: texts of others are long."""
_PLACEHOLDER = re.compile(r"\{(\w+)([?!]?)\}")
_BORDER = re.compile(r"(?<=[.!?])\s+|\n")


class Phrase(msgspec.Struct, frozen=True):
    """A sentence of hilum.

    Attributes:
        code: Its code, which never changes its meaning.
        values: The values in it, by name: a text, or a list of parts like the one it is part of.
    """

    code: str
    values: dict[str, Any] = {}


Parts = list[str | Phrase]
"""A text in parts: sentences of hilum, and what is between them as it is."""


@attrs.frozen
class _Template:
    code: str
    pattern: re.Pattern[str]
    start: str
    end: str
    kinds: dict[str, str]


def find_parts(text: str) -> Parts:
    """Return a text with the sentences of hilum in it; empty if there are none."""
    if not text or len(text) > MAX_RECOGNIZED:
        return []
    parts = list(_find_parts(text, 0))
    return parts if any(isinstance(part, Phrase) for part in parts) else []


@lru_cache(maxsize=2_000)
def _find_parts(text: str, depth: int) -> tuple[str | Phrase, ...]:
    whole = _recognize(text, depth)
    if whole is not None:
        return (whole,)
    # The last border comes first, because a sentence may contain others.
    borders = list(islice(_BORDER.finditer(text), MAX_BORDERS))
    for border in reversed(borders):
        phrase = _recognize(text[: border.start()], depth)
        if phrase is not None:
            return (phrase, border.group(), *_find_parts(text[border.end() :], depth))
    for border in borders:
        phrase = _recognize(text[border.end() :], depth)
        if phrase is not None:
            return (text[: border.end()], phrase)
    return (text,)


def _recognize(text: str, depth: int) -> Phrase | None:
    """Return the sentence that a text is; ``None`` if it is none of hilum's."""
    if depth > MAX_DEPTH:
        return None
    for template in _templates():
        if not (text.startswith(template.start) and text.endswith(template.end)):
            continue
        found = template.pattern.fullmatch(text)
        values = _read_values(template, found, depth) if found else None
        if values is not None:
            return Phrase(template.code, values)
    return None


def _read_values(template: _Template, found: re.Match[str], depth: int) -> dict[str, Any] | None:
    values: dict[str, Any] = {}
    for name, text in found.groupdict().items():
        kind = template.kinds[name]
        values[name] = text
        if not kind:
            continue
        parts = _find_parts(text, depth + 1)
        if parts != (text,):
            values[name] = list(parts)
        elif kind == "!":
            return None
    return values


@cache
def _templates() -> tuple[_Template, ...]:
    """Return all sentences, the ones with the most text of their own first."""
    table = sorted(PHRASES, key=lambda row: len(_PLACEHOLDER.sub("", row[1])), reverse=True)
    return tuple(_compile(code, sentence) for code, sentence in table)


def _compile(code: str, sentence: str) -> _Template:
    places = list(_PLACEHOLDER.finditer(sentence))
    if not places:
        return _Template(code, re.compile(re.escape(sentence)), sentence, sentence, {})
    return _Template(
        code=code,
        pattern=re.compile("".join(_make_pattern(sentence)), re.DOTALL),
        start=sentence[: places[0].start()],
        end=sentence[places[-1].end() :],
        kinds={place[1]: place[2] for place in places},
    )


def _make_pattern(sentence: str) -> Iterator[str]:
    end = 0
    for place in _PLACEHOLDER.finditer(sentence):
        yield re.escape(sentence[end : place.start()])
        yield f"(?P<{place[1]}>.+?)"
        end = place.end()
    yield re.escape(sentence[end:])
