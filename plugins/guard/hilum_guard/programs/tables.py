"""Read the tables in this folder, which describe programs: their options, and what they do.

A row begins with the names of its programs, separated by commas. Lines that are indented by 4
spaces set the row's columns, and lines that are indented by 8 spaces continue a column:

    wc
        flags = lwcmL
        long_options = lines words bytes chars
            max-line-length

`configparser` reads a similar format, but it would add 20 ms to the first command of a session.
"""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).parent
_COLUMN = re.compile(r"([a-z_]+) = (.+)")


def read_table(name: str) -> dict[str, dict[str, str]]:
    """Return the columns for each program in a table.

    Raises:
        ValueError: A line does not have the form that the module describes.
    """
    rows: dict[str, dict[str, str]] = {}
    names = ""
    columns: dict[str, str] = {}
    column = ""
    lines = (_FOLDER / f"{name}.ini").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text or text.startswith("#"):
            continue
        if indent == 0:
            names += f" {text}"
            if not text.endswith(","):  # a row's names may take several lines
                columns = {}
                column = ""
                rows.update(dict.fromkeys(names.strip().split(", "), columns))
                names = ""
            continue
        found = _COLUMN.fullmatch(text)
        if indent == 4 and found and rows and not names:
            column = found[1]
            columns[column] = found[2]
        elif indent == 8 and column:
            columns[column] += f" {text}"
        else:
            raise ValueError(
                f"{name}.ini, line {number}: {text!r} neither sets nor continues a column"
            )
    return rows


def parse_switch(value: str | bool) -> bool:
    """Return whether the value of a ``yes``/``no`` column is ``yes``.

    Raises:
        ValueError: The column's value is neither ``yes`` nor ``no``.
    """
    if isinstance(value, bool):  # the column's default
        return value
    if value not in ("yes", "no"):
        raise ValueError(f"{value!r} is neither yes nor no")
    return value == "yes"
