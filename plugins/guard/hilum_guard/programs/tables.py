"""Read the tables of programs in the folder ``programs``: their options, and what they do.

A row begins with the names of its programs, separated by commas. Indented lines set its columns, and
lines that are indented further continue a column:

    gzip, bzip2
        flags = cdfk
        longs = stdout decompress
            force keep

`configparser` reads a similar form, but it would add 20 ms to the first command of a session.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def read_table(name: str) -> dict[str, dict[str, str]]:
    """Return the columns of each program in a table."""
    rows: dict[str, dict[str, str]] = {}
    names = ""
    columns: dict[str, str] = {}
    column = ""
    for line in (_FOLDER / f"{name}.ini").read_text(encoding="utf-8").splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text or text.startswith("#"):
            continue
        if indent == 0:
            names += f" {text}"
            if not text.endswith(","):  # the names may take several lines
                columns = {}
                rows.update(dict.fromkeys(names.strip().split(", "), columns))
                names = ""
        elif indent == 4:
            column, _, value = text.partition(" =")
            columns[column] = value.lstrip()
        else:
            columns[column] += f" {text}"
    return rows
