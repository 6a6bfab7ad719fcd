"""The redactor takes linear time for every text: `re` keeps the interpreter's lock, so a slow text
would stop everything.
"""

from __future__ import annotations

import random
import re
import re._constants as opcodes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hilum_guard import Redactor
from hilum_guard.secrets import redaction

SMALL = 2_500
LARGE = 4 * SMALL
MAX_RATIO = 8
# What is faster than this is not measured again: the ratio of two short times says nothing.
FAST = 0.004
KILLERS = ("", "(", '"')
PATTERNS = {f"{name} {pattern[:40]}": pattern for name, _, pattern in redaction._SHAPES} | {
    "a key's last line": redaction._KEY_END.pattern,
    "a placeholder": redaction.PLACEHOLDER.pattern,
}


def _example(tree: Any, chance: random.Random) -> str:
    """Return a text that a parsed pattern may match; what it only looks at is left out."""
    text = ""
    for code, value in tree:
        if code is opcodes.LITERAL:
            text += chr(value)
        elif code is opcodes.IN:
            text += _member(value, chance)
        elif code in (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT, opcodes.POSSESSIVE_REPEAT):
            least, most, inner = value
            times = min(int(most), max(int(least), chance.randint(0, 2)))
            text += "".join(_example(inner, chance) for _ in range(times))
        elif code is opcodes.SUBPATTERN:
            text += _example(value[3], chance)
        elif code is opcodes.BRANCH:
            text += _example(chance.choice(value[1]), chance)
    return text


def _member(items: Any, chance: random.Random) -> str:
    """Return a character of a set."""
    spelled = "".join(map(chr, range(32, 127))) + "\n\t"
    inside = [each for each in spelled if _is_member(items, each)]
    return chance.choice(inside or ["x"])


def _is_member(items: Any, letter: str) -> bool:
    negated = False
    found = False
    categories: dict[Any, Callable[[str], bool]] = {
        opcodes.CATEGORY_DIGIT: str.isdigit,
        opcodes.CATEGORY_SPACE: str.isspace,
        opcodes.CATEGORY_NOT_SPACE: lambda each: not each.isspace(),
        opcodes.CATEGORY_WORD: lambda each: each.isalnum() or each == "_",
    }
    for code, value in items:
        if code is opcodes.NEGATE:
            negated = True
        elif code is opcodes.LITERAL:
            found |= ord(letter) == value
        elif code is opcodes.RANGE:
            found |= value[0] <= ord(letter) <= value[1]
        elif code is opcodes.CATEGORY:
            found |= categories[value](letter)
    return found != negated


def _hard_texts(pattern: str, size: int) -> Iterator[tuple[str, str]]:
    """Yield texts that almost match a pattern, again and again, each with a name that does not
    depend on their size.
    """
    chance = random.Random(pattern)
    for number in range(2):
        example = _example(parser.parse(pattern), chance)[:200]
        for length in range(1, len(example) + 1, max(1, len(example) // 12)):
            beginning = example[:length]
            for killer in KILLERS:
                yield (
                    f"{number} {beginning!r} repeated {killer!r}",
                    (beginning * size)[:size] + killer,
                )
                yield (
                    f"{number} {beginning!r} repeated - {killer!r}",
                    (f"-{beginning}" * size)[:size] + killer,
                )
                pumped = beginning + beginning[-1] * size + example[length:]
                yield f"{number} {beginning!r} pumped {killer!r}", pumped + killer


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _ratio(work: Callable[[str], object], small: str, large: str) -> float:
    """Return how much longer the long text takes, by the best of some measurements; 0 where that is
    too fast to tell.
    """
    slow = _seconds(lambda: work(large))
    if slow < FAST:
        return 0
    slow = min(slow, *(_seconds(lambda: work(large)) for _ in range(4)))
    if slow < FAST:
        return 0
    return slow / max(min(_seconds(lambda: work(small)) for _ in range(5)), 1e-6)


@pytest.mark.slow(cases=8)
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_linear_time(name: str) -> None:
    """A text four times as long takes at most eight times as long, whatever it repeats."""
    pattern = re.compile(PATTERNS[name])
    small = dict(_hard_texts(PATTERNS[name], SMALL))
    for text, large in _hard_texts(PATTERNS[name], LARGE):
        ratio = _ratio(lambda each: pattern.sub("", each), small[text], large)
        assert ratio <= MAX_RATIO, text


WHOLE = {
    "JWT": "eyJ",
    "JWT after a hyphen": "eyJhbGciOiJ-",
    "JWT after an escape of a terminal": "0meyJ",
    "address": "://aaaaaaaaaaaa1aaaa",
    "headers": "authorization: bearer ",
    "headers that are calls": "authorization:",
    "assignments": "token=a1b2c3d4e5f6=",
    "first lines of keys": "-----BEGIN PRIVATE KEY-----\n",
    "last lines of keys": "-----END PRIVATE KEY-----",
    "keys without a first line": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo\n-----END PRIVATE KEY-----\n",
    "hyphens": "-----BEGIN PRIVATE KEY----- -",
    "known values": "correct-horse-batter",
}


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize("killer", ["", "("])
@pytest.mark.parametrize("name", WHOLE)
def test_the_redactor_takes_linear_time(
    name: str, killer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All patterns together, on texts that are cut into pieces."""
    monkeypatch.setattr(redaction, "PIECE", 25_000)
    monkeypatch.setattr(redaction, "OVERLAP", 5_000)
    redact = Redactor({"A_TOKEN": "correct-horse-battery"}, {})
    size = 15_000
    small = (WHOLE[name] * size)[:size] + killer
    large = (WHOLE[name] * size * 4)[: size * 4] + killer
    assert _ratio(lambda text: redact(text, settings=True), small, large) <= MAX_RATIO


def test_no_search_reads_more_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is replaced in pieces is the same as at once, wherever the pieces end."""
    lines = [
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
        "Authorization: Bearer tok3n.value_123",
        "https://me:hunter2hunter2@example.org/x",
        'export DB_PASSWORD="correct-horse-battery"',
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc/+\n-----END RSA PRIVATE KEY-----",
        "password: hunter2hunter",
        "an ordinary line of text, with eyJust a word",
        "api_key = 'abcdef0123456789'",
    ]
    redact = Redactor({"A_TOKEN": "correct-donkey"}, {})
    chance = random.Random(1)
    texts = []
    for _ in range(20):
        parts = [
            chance.choice(lines) + chance.choice(["\n", " ", "\n\n", "correct-donkey"])
            for _ in range(40)
        ]
        texts.append("".join(parts))
    whole = [redact(text, settings=True) for text in texts]
    monkeypatch.setattr(redaction, "OVERLAP", 150)
    for piece in (400, 431, 700):
        monkeypatch.setattr(redaction, "PIECE", piece)
        assert [redact(text, settings=True) for text in texts] == whole


def test_a_long_key_is_replaced_as_a_whole() -> None:
    """One block that is longer than a piece, and a text that goes on behind it."""
    body = ("MIIEowIBAAKCAQEA" * 4 + "\n") * 4_000
    text = f"{'x' * 50_000}\n-----BEGIN PRIVATE KEY-----\n{body}<end>{'y ' * 90_000}"
    redacted = Redactor({}, {})(text)
    assert redacted == f"{'x' * 50_000}\n[REDACTED:PRIVATE_KEY]<end>{'y ' * 90_000}"
