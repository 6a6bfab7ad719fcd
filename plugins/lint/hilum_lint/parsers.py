"""Readers of what checkers print: each gives what it found, with paths as the checker wrote them.

A reader raises one of ``READ_ERRORS`` where the output is not what it should be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec


class Found(NamedTuple):
    """One finding as a checker gives it; see ``Diagnostic``."""

    path: str
    line: int
    column: int
    severity: str
    code: str
    message: str


Parser = Callable[[str, str], Iterable[Found]]
"""Takes standard output and standard error."""

READ_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError)

# Of what ruff and flake8 find, this makes a program fail; the rest is advice.
_FATAL = ("invalid-syntax", "E9", "F63", "F7", "F82")


def _python_severity(code: str) -> str:
    return "error" if code.startswith(_FATAL) else "warning"


def ruff(stdout: str, _: str) -> Iterator[Found]:
    """Read ``ruff check --output-format json-lines``: one object a line."""
    for line in stdout.splitlines():
        each = msgspec.json.decode(line)
        code = each["code"] or "invalid-syntax"  # older ones give no code for what is no Python
        at = each["location"]
        yield Found(
            each["filename"], at["row"], at["column"], _python_severity(code), code, each["message"]
        )


def pylint(stdout: str, _: str) -> Iterator[Found]:
    """Read ``pylint --output-format json``."""
    severities = {"fatal": "error", "error": "error", "warning": "warning"}
    for each in msgspec.json.decode(stdout or "[]"):
        severity = severities.get(each["type"], "info")
        yield Found(
            each["path"],
            each["line"],
            each["column"] + 1,
            severity,
            each["symbol"],
            each["message"],
        )


def pyright(stdout: str, _: str) -> Iterator[Found]:
    """Read ``pyright --outputjson``, which counts from 0."""
    for each in msgspec.json.decode(stdout)["generalDiagnostics"]:
        at = each.get("range", {}).get("start", {"line": -1, "character": -1})
        severity = {"information": "info"}.get(each["severity"], each["severity"])
        yield Found(
            each.get("file", ""),
            at["line"] + 1,
            at["character"] + 1,
            severity,
            each.get("rule", ""),
            each["message"],
        )


def eslint(stdout: str, _: str) -> Iterator[Found]:
    """Read ``eslint --format json``.

    That it was not asked to look at an ignored file is no finding.
    """
    for file in msgspec.json.decode(stdout):
        for each in file["messages"]:
            if each["ruleId"] is None and each["message"].startswith("File ignored"):
                continue
            severity = "error" if each["severity"] == 2 else "warning"
            place = each.get("line") or 0, each.get("column") or 0
            yield Found(file["filePath"], *place, severity, each["ruleId"] or "", each["message"])


def shellcheck(stdout: str, _: str) -> Iterator[Found]:
    """Read ``shellcheck --format json``."""
    for each in msgspec.json.decode(stdout):
        severity = {"error": "error", "warning": "warning"}.get(each["level"], "info")
        yield Found(
            each["file"],
            each["line"],
            each["column"],
            severity,
            f"SC{each['code']}",
            each["message"],
        )


def cargo(stdout: str, _: str) -> Iterator[Found]:
    """Read ``cargo check --message-format json``: one object a line."""
    for line in stdout.splitlines():
        told: dict[str, Any] = msgspec.json.decode(line)
        message = told.get("message") if told.get("reason") == "compiler-message" else None
        spans = [span for span in (message or {}).get("spans", ()) if span["is_primary"]]
        if message and spans:
            at = spans[-1]
            code = (message["code"] or {}).get("code", "")
            severity = {"error": "error", "warning": "warning"}.get(message["level"], "info")
            yield Found(
                at["file_name"],
                at["line_start"],
                at["column_start"],
                severity,
                code,
                message["message"],
            )


def syntax(stdout: str, _: str) -> Iterator[Found]:
    """Read what ``compile_files`` prints: an array a line."""
    for line in stdout.splitlines():
        yield Found(*msgspec.json.decode(line, type=tuple[str, int, int, str, str, str]))


def lines(pattern: str, severity: str | Callable[[str], str] = "error") -> Parser:
    """Create a reader of lines.

    Args:
        pattern: Regular expression with the groups ``path``, ``line``, ``message``; also
            ``column``, ``severity``, ``code``.
        severity: Where the line names none: the severity, or a function of the code.
    """

    def parse(stdout: str, stderr: str) -> Iterator[Found]:
        compiled = re.compile(pattern)  # at first use: it costs time at start
        for line in f"{stdout}\n{stderr}".splitlines():
            if len(line) <= 10_000 and (match := compiled.match(line)):
                given = match.groupdict(default="")
                code = given.get("code", "")
                otherwise = severity if isinstance(severity, str) else severity(code)
                kind = _named(given.get("severity", ""), otherwise)
                column = int(given.get("column") or 0)
                yield Found(
                    given["path"], int(given["line"] or 0), column, kind, code, given["message"]
                )

    return parse


def _named(word: str, otherwise: str) -> str:
    word = word.lower()
    known = {
        "warn": "warning",
        "note": "info",
        "information": "info",
        "hint": "info",
        "fatal": "error",
    }
    word = known.get(word, word)
    if word in ("error", "warning", "info"):
        return word
    return otherwise


mypy = lines(
    r"(?P<path>.+?):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<severity>error|note):"
    r" (?P<message>.*?)(?:  \[(?P<code>[\w-]+)\])?$"
)
flake8 = lines(
    r"(?P<path>.+?):(?P<line>\d+):(?P<column>\d+): (?P<code>\w+) (?P<message>.+)$", _python_severity
)
tsc = lines(
    r"(?P<path>.+?)\((?P<line>\d+),(?P<column>\d+)\): (?P<severity>error|warning|message)"
    r" (?P<code>TS\d+): (?P<message>.+)$"
)
go_vet = lines(
    r"(?:vet: )?(?P<path>[^\s:#][^:]*\.go):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<message>.+)$"
)
