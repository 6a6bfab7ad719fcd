"""The bill as a table, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterator, Sequence

from hilum_view import format_duration, format_money

from hilum_trace.bill.bill import Bill, BilledAmount, Row, largest_kinds

# The columns that a narrow terminal does not show, in the order in which they are left out.
_LEAST_IMPORTANT = ("MOSTLY", "CALLS", "TIME", "CACHED", "REQUESTS", "OUTPUT", "INPUT", "SHARE")
# Longest name of a row in the table, in characters.
MAX_NAME = 60
_CSV_FIELDS = (
    "input",
    "cached",
    "cache_write",
    "output",
    "cost",
    "unpriced",
    "requests",
    "calls",
    "failed",
    "seconds",
)


def format_table(bill: Bill, limit: int, width: int = 0) -> str:
    """Return the bill as a table with totals, followed by what is not known.

    Args:
        bill: The bill.
        limit: Maximum number of rows; 0 for all.
        width: Number of columns of the terminal; 0 for any. Columns of the table without room are
            left out.
    """
    rows = bill.rows()
    shown = rows[:limit] if limit else rows
    by_part = bill.is_divided
    lines = [_header(bill.by, by_part)]
    lines += [_cells(row, bill.total, by_part) for row in shown]
    lines.append(_cells(Row("total", bill.total), bill.total, by_part=False))
    lines, left_out = _fit(lines, width)
    text = [_align(lines)]
    if left_out:
        text.append(f"Without room here: {', '.join(left_out)}. --csv and --json have all columns.")
    if len(shown) < len(rows):
        text.append(f"… and {len(rows) - len(shown):,} more rows: --limit 0 shows all.")
    sentences = [*text[1:], *describe_unknown(bill)]
    if width:
        # A long word, such as the name of a setting, is not cut.
        sentences = [
            textwrap.fill(each, width, break_long_words=False, break_on_hyphens=False)
            for each in sentences
        ]
    return "\n".join([text[0], *sentences])


def _header(by: str, by_part: bool) -> list[str]:
    header = [by.upper(), "COST", "SHARE", "INPUT", "CACHED", "OUTPUT", "REQUESTS", "CALLS", "TIME"]
    return [*header, "MOSTLY"] if by_part else header


def _cells(row: Row, total: BilledAmount, by_part: bool) -> list[str]:
    amount = row.amount
    name = row.name
    if len(name) > MAX_NAME:
        name = f"…{name[1 - MAX_NAME :]}"
    cells = [
        name,
        _format_cost(amount),
        _format_part(amount, total),
        f"{amount.input:,}",
        f"{amount.cached_share:.0%}" if amount.input else "",
        f"{amount.output:,}",
        f"{amount.requests:,}" if amount.requests else "",
        f"{amount.calls:,}" if amount.calls else "",
        format_duration(amount.seconds) if amount.seconds else "",
    ]
    if by_part:
        kinds = [f"{kind} {share:.0%}" for kind, share in largest_kinds(amount)]
        cells.append(", ".join(kinds))
    return cells


def _format_cost(amount: BilledAmount) -> str:
    """Return a cost as text; a question mark stands for tokens without a known price."""
    if not amount.tokens and not amount.cost:
        return ""
    if not amount.unpriced:
        return format_money(amount.cost)
    return f"{format_money(amount.cost)} + ?" if amount.cost else "?"


def _format_part(amount: BilledAmount, total: BilledAmount) -> str:
    """Return the share of a row: of the cost or, if no cost is known, of the tokens.

    A row whose cost is not known has no known share of the cost.
    """
    if not amount.tokens and not amount.cost:
        return ""
    if total.cost:
        if amount.unpriced and not amount.cost:
            return "?"
        return f"{amount.cost / total.cost:.1%}"
    return f"{amount.tokens / total.tokens:.1%}" if total.tokens else ""


def _fit(lines: Sequence[Sequence[str]], width: int) -> tuple[list[list[str]], list[str]]:
    """Return rows of cells without empty columns, and without those for which there is no room.

    Returns:
        The rows, and the names of the columns that there is no room for.
    """
    count = len(lines[0])
    padded = [[*line, *[""] * (count - len(line))] for line in lines]
    filled = [column for column in range(count) if any(line[column] for line in padded[1:])]
    left_out: list[str] = []
    fitting = _select(padded, filled)
    for name in _LEAST_IMPORTANT:
        if not width or max(map(len, _align(fitting).splitlines())) <= width:
            break
        if name in fitting[0]:
            left_out.append(name)
            filled = [column for column in filled if padded[0][column] != name]
            fitting = _select(padded, filled)
    return fitting, left_out


def _select(lines: Sequence[Sequence[str]], columns: Sequence[int]) -> list[list[str]]:
    return [[line[column] for column in columns] for line in lines]


def _align(padded: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as columns; columns of text are left-aligned."""
    count = len(padded[0])
    widths = [max(len(line[column]) for line in padded) for column in range(count)]
    text = []
    for line in padded:
        cells = [line[0].ljust(widths[0])]
        for column in range(1, count):
            is_text = padded[0][column] == "MOSTLY"
            width = widths[column]
            cells.append(line[column].ljust(width) if is_text else line[column].rjust(width))
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


def describe_unknown(bill: Bill) -> Iterator[str]:
    """Yield a sentence about each thing that the bill does not contain."""
    total = bill.total
    if total.unpriced:
        yield (
            f"No price is known for {total.unpriced:,} tokens (marked ?): their cost is not"
            ' included. Set prices with models.models."provider/name".price in settings.toml.'
        )
    if bill.uncounted:
        yield (
            f"The provider did not count the tokens of {bill.uncounted:,} requests, which are not"
            " included."
        )
    if bill.lost:
        yield (
            f"{bill.lost:,} requests with about {bill.lost_tokens:,} tokens failed or were stopped"
            " before the provider sent its counts. They may have been charged, and are not"
            " included. Requests that the provider refused, for example because of a rate limit,"
            " are not charged and not counted here."
        )
    for problem in bill.unreadable:
        yield f"Not everything is included: {problem}"


def as_data(bill: Bill) -> dict[str, object]:
    """Return the bill as data for JSON. An unknown cost is ``None``."""
    return {
        "by": bill.by,
        "rows": [{"name": row.name, **_data_of(row.amount, bill)} for row in bill.rows()],
        "total": _data_of(bill.total, bill),
        "unknown": {
            "unpriced_tokens": bill.total.unpriced,
            "uncounted_requests": bill.uncounted,
            "lost_requests": bill.lost,
            "lost_tokens": bill.lost_tokens,
            "unreadable": bill.unreadable,
        },
    }


def _data_of(amount: BilledAmount, bill: Bill) -> dict[str, object]:
    data = _amount_data(amount)
    if bill.is_divided:
        data["kinds"] = dict(amount.kinds.most_common())
    return data


def _amount_data(amount: BilledAmount) -> dict[str, object]:
    data: dict[str, object] = {name: getattr(amount, name) for name in _CSV_FIELDS}
    # Sums of decimal fractions have digits that mean nothing.
    data["cost"] = round(amount.cost, 9)
    data["seconds"] = round(amount.seconds, 3)
    if amount.unpriced and not amount.cost:
        data["cost"] = None
    return data


def format_csv(bill: Bill) -> str:
    """Return the rows of the bill, without the total, as comma-separated values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([bill.by, *_CSV_FIELDS])
    for row in bill.rows():
        data = _amount_data(row.amount)
        cells = ["" if data[name] is None else data[name] for name in _CSV_FIELDS]
        writer.writerow([_escape_formula(row.name), *cells])
    return text.getvalue().rstrip("\n")


def _escape_formula(name: str) -> str:
    """Return a name that a spreadsheet does not read as a formula (OWASP, CSV injection)."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
