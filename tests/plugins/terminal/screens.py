"""Screens as readable text, texts that try to drive a terminal, and the check that rows do not."""

import random
import re
import textwrap
import unicodedata

from hilum_terminal.text_width import cells

WIDTHS = (20, 21, 33, 40, 59, 60, 80, 120, 300)
HOSTILE = (
    "",
    " \t ",
    "plain text",
    "\x1b[2J\x1b[3J\x1b[H",
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[31mred",
    "\x1b[3",
    "\x9b2J\x9dx\x9c",
    "a\rb\x08\x7f\x00",
    "\u202eabc\u2066def\u2069",
    "\u200b\ufeff\u00ad\u2028\u2029\x85\x0b\x0c",
    "e" + "\u0301" * 500,
    "日本語" * 40,
    "👨\u200d👩\u200d👧 🏳️\u200d🌈 🇩🇪",
    "\ud800\udfff",
    "line\nline\r\nline\n",
    "\t\ttabs\tin\tit",
    "x" * 3_000,
    "word " * 400,
    "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-\x1b[2J\n+\u202e\n",
    "@@ -999999999,999999999 +1 @@\n-a\n\\ x\n",
    '{"a": [[[[',
)
_SGR = re.compile(r"\x1b\[[0-9;]*m")


def hostile_text(generator: random.Random) -> str:
    """Return a random mixture of hostile texts."""
    return "".join(generator.choices(HOSTILE, k=generator.randrange(1, 5)))


def find_faults(rows: list[str], width: int) -> list[str]:
    """Return what is wrong with rows: their width, or characters that a terminal interprets."""
    faults = []
    for row in rows:
        if cells(row) > width:
            faults.append(f"{cells(row)} columns of {width}: {row[:200]!r}")
        for char in _SGR.sub("", row):
            # A zero-width joiner inside an emoji is the only format character that is allowed.
            if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char != "\u200d":
                faults.append(f"{char!r} in {row[:200]!r}")
    return faults


def screen(text: str) -> str:
    """Return the expected rows, written as an indented block."""
    return textwrap.dedent(text).strip("\n")


def plain(rows: list[str]) -> str:
    """Return rows as text without colors."""
    return "\n".join(_SGR.sub("", row).rstrip() for row in rows)
