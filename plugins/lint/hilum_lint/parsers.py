"""Parsers for the output of checkers. Paths are kept as the checker printed them.

A parser raises one of ``READ_ERRORS`` if the output is invalid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec


class Finding(NamedTuple):
    """A finding in the form that a checker printed; see ``Diagnostic``."""

    path: str
    line: int
    column: int
    severity: str
    code: str
    message: str


# A function that extracts findings from a checker's standard output and standard error.
Parser = Callable[[str, str], Iterable[Finding]]

# Maximum length, in characters, of a line that is searched for a finding.
MAX_LINE = 10_000
# The exceptions that parsers raise for invalid output, which callers must catch.
READ_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError)

# The words that checkers use for severities.
_SEVERITIES = {
    "error": "error",
    "fatal": "error",
    "warning": "warning",
    "warn": "warning",
    "info": "info",
    "information": "info",
    "note": "info",
    "hint": "info",
}

# The codes with which ruff and flake8 report code that would fail at run time; all others are
# advice.
_FATAL = ("invalid-syntax", "E9", "F63", "F7", "F82")


def python_severity(code: str) -> str:
    """Return the severity of a diagnostic of ruff or flake8, which report none."""
    return "error" if code.startswith(_FATAL) else "warning"


def parse_ruff(stdout: str, _: str) -> Iterator[Finding]:
    """Parse ``ruff check --output-format json-lines``, which has one object per line."""
    for line in stdout.splitlines():
        each = msgspec.json.decode(line)
        # Older versions report syntax errors without a code.
        code = each["code"] or "invalid-syntax"
        at = each["location"]
        yield Finding(
            each["filename"],
            at["row"],
            at["column"],
            python_severity(code),
            code,
            each["message"],
        )


def parse_pylint(stdout: str, _: str) -> Iterator[Finding]:
    """Parse ``pylint --output-format json``."""
    for each in msgspec.json.decode(stdout or "[]"):
        # pylint's other types are "convention" and "refactor".
        severity = _SEVERITIES.get(each["type"], "info")
        yield Finding(
            each["path"],
            each["line"],
            # pylint counts columns from 0.
            each["column"] + 1,
            severity,
            each["symbol"],
            each["message"],
        )


def parse_pyright(stdout: str, _: str) -> Iterator[Finding]:
    """Parse ``pyright --outputjson``, which counts lines from 0."""
    for each in msgspec.json.decode(stdout)["generalDiagnostics"]:
        at = each.get("range", {}).get("start", {"line": -1, "character": -1})
        severity = _SEVERITIES.get(each["severity"], "error")
        yield Finding(
            each.get("file", ""),
            at["line"] + 1,
            at["character"] + 1,
            severity,
            each.get("rule", ""),
            each["message"],
        )


def parse_eslint(stdout: str, _: str) -> Iterator[Finding]:
    """Parse ``eslint --format json``. A message about an ignored file is not a finding."""
    for file in msgspec.json.decode(stdout):
        for each in file["messages"]:
            if each["ruleId"] is None and each["message"].startswith("File ignored"):
                continue
            severity = "error" if each["severity"] == 2 else "warning"
            yield Finding(
                file["filePath"],
                each.get("line") or 0,
                each.get("column") or 0,
                severity,
                each["ruleId"] or "",
                each["message"],
            )


def parse_shellcheck(stdout: str, _: str) -> Iterator[Finding]:
    """Parse ``shellcheck --format json``."""
    for each in msgspec.json.decode(stdout):
        severity = _SEVERITIES.get(each["level"], "info")
        yield Finding(
            each["file"],
            each["line"],
            each["column"],
            severity,
            f"SC{each['code']}",
            each["message"],
        )


def parse_cargo(stdout: str, _: str) -> Iterator[Finding]:
    """Parse ``cargo check --message-format json``, which has one object per line."""
    for line in stdout.splitlines():
        printed: dict[str, Any] = msgspec.json.decode(line)
        if printed.get("reason") != "compiler-message":
            continue
        message = printed["message"]
        spans = [span for span in message.get("spans", ()) if span["is_primary"]]
        if not spans:  # a summary, such as "aborting due to 2 previous errors"
            continue
        at = spans[-1]
        code = message["code"] or {}
        yield Finding(
            at["file_name"],
            at["line_start"],
            at["column_start"],
            _SEVERITIES.get(message["level"], "info"),
            code.get("code", ""),
            message["message"],
        )


def parse_syntax(stdout: str, _: str) -> Iterator[Finding]:
    """Parse the output of ``compile_files``, which has one array per line."""
    for line in stdout.splitlines():
        yield Finding(*msgspec.json.decode(line, type=tuple[str, int, int, str, str, str]))


def make_line_parser(pattern: str, severity: str | Callable[[str], str] = "error") -> Parser:
    """Create a parser for line-based output.

    Args:
        pattern: Regular expression with the groups ``path``, ``line``, ``message``; optionally
            ``column``, ``severity``, ``code``.
        severity: The severity of lines that contain none, or a function that derives it from the
            code.
    """

    def parse(stdout: str, stderr: str) -> Iterator[Finding]:
        # Compiled late, because compiling would slow down the import.
        compiled = re.compile(pattern)
        for line in f"{stdout}\n{stderr}".splitlines():
            # A user's pattern may take quadratic time, so longer lines, which contain no findings,
            # are skipped.
            match = compiled.match(line) if len(line) <= MAX_LINE else None
            if match is None:
                continue
            given = match.groupdict(default="")
            code = given.get("code", "")
            default = severity if isinstance(severity, str) else severity(code)
            word = given.get("severity", "").lower()
            yield Finding(
                given["path"],
                int(given["line"] or 0),
                int(given.get("column") or 0),
                _SEVERITIES.get(word, default),
                code,
                given["message"],
            )

    return parse


parse_mypy = make_line_parser(
    r"(?P<path>.+?):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<severity>error|note):"
    r" (?P<message>.*?)(?:  \[(?P<code>[\w-]+)\])?$"
)
parse_ty = make_line_parser(
    r"(?P<path>.+?):(?P<line>\d+):(?P<column>\d+): (?P<severity>error|warning|info)"
    r"\[(?P<code>[\w-]+)\] (?P<message>.+)$"
)
parse_flake8 = make_line_parser(
    r"(?P<path>.+?):(?P<line>\d+):(?P<column>\d+): (?P<code>\w+) (?P<message>.+)$", python_severity
)
parse_tsc = make_line_parser(
    r"(?P<path>.+?)\((?P<line>\d+),(?P<column>\d+)\): (?P<severity>error|warning|message)"
    r" (?P<code>TS\d+): (?P<message>.+)$"
)
parse_go_vet = make_line_parser(
    r"(?:vet: )?(?P<path>[^\s:#][^:]*\.go):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<message>.+)$"
)
