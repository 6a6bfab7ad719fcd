"""Reads a cassette from its text; ``cassette_writer`` describes the format."""

from __future__ import annotations

import json
import tomllib
from os import PathLike
from typing import Any, Literal

import msgspec
from hilum.errors import E_FILE_NOT_FOUND, E_STORE, UsageError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from hilum.settings import explain_invalid_toml

from hilum_replay.cassette import Cassette, Exchange, Kind, Sent
from hilum_replay.cassette_writer import FORMAT, dump_json
from hilum_replay.read_limits import find_count_problem, read_regular_file

_MARK = "[[exchange]]"
# The kinds of rows that consist of text alone.
_PLAIN_KINDS: tuple[Kind, ...] = ("note", "summary", "aside")


# The structs into which the file is decoded. Unknown fields are rejected, because they are usually
# misspelled.


class _SentRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row of ``exchange.sent``."""

    user: str | None = None
    note: str | None = None
    summary: str | None = None
    aside: str | None = None
    result: str | None = None
    image: str | None = None
    tool: str = ""
    code: str = ""
    text: str = ""
    call: str = ""
    source: str = ""


class _AnswerRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row of ``exchange.answer``."""

    text: str | None = None
    thinking: str | None = None
    call: str | None = None
    tool: str = ""
    arguments: str | dict[str, Any] = "{}"
    json: Literal["compact", "spaced"] = "compact"
    vendor: str = ""
    source: str = "model"


class _EndTable(msgspec.Struct, forbid_unknown_fields=True):
    usage: Usage = Usage()
    first: float = 0.0
    seconds: float = 0.0
    stop: Literal["end", "calls", "length", "refusal"] | None = None


class _ExchangeTable(msgspec.Struct, forbid_unknown_fields=True):
    sent: list[_SentRow] = []
    answer: list[_AnswerRow] = []
    end: _EndTable = msgspec.field(default_factory=_EndTable)
    agent: str = "main"
    model: str | None = None
    layers: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    exchange: list[_ExchangeTable] = []
    model: str = ""
    hilum: str = ""
    title: str = ""


def load(path: str | PathLike[str]) -> Cassette:
    """Read a cassette from a file.

    Raises:
        UsageError: The file does not exist, is not a regular file, is too large, or is not a
            cassette.
    """
    try:
        # Line endings are not translated, so that carriage returns in texts are kept.
        text = read_regular_file(path).decode()
    except (OSError, ValueError) as error:
        is_text = not isinstance(error, UnicodeDecodeError)
        reason = getattr(error, "strerror", None) or error if is_text else "it is not UTF-8 text"
        raise UsageError(
            f"Cannot read the cassette {path}: {reason}.",
            code=E_FILE_NOT_FOUND,
            hint="Record one with `hilum run --record FILE`.",
        ) from None
    return loads(text, str(path))


def loads(text: str, name: str = "the cassette") -> Cassette:
    """Read a cassette from its text. A torn last exchange is dropped, and ``torn`` is set.

    Args:
        text: The text, which hilum or a person wrote.
        name: The cassette's name in messages.

    Raises:
        UsageError: The text is not a cassette (``E_STORE``); the message contains the position of
            the error.
    """
    if not text.strip():
        message = f"{name} is empty: nothing was recorded."
        raise UsageError(message, code=E_STORE, hint="Record it again.")
    problem = find_count_problem(text.encode(errors="surrogatepass"))
    if problem:
        raise _not_a_cassette_error(name, problem)
    try:
        data, torn = _parse(text, name)
        file = msgspec.convert(data, _File)
    except RecursionError:
        raise _not_a_cassette_error(name, "it is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise _not_a_cassette_error(name, str(error)) from None
    if file.format != FORMAT:
        message = f"{name} has cassette format {file.format}; this hilum-replay reads {FORMAT}."
        hint = "Update hilum-replay, or record the cassette again."
        raise UsageError(message, code=E_STORE, hint=hint)
    tables = file.exchange
    # A recording may be cut off at a point where the remaining text is still valid TOML.
    # Handwritten cassettes have no version, and need no `stop`.
    if file.hilum and tables and tables[-1].end.stop is None:
        tables.pop()
        torn = True
    exchanges = []
    for number, table in enumerate(tables, 1):
        exchanges.append(_read_exchange(table, f"exchange {number} of {name}", file.model))
    return Cassette(tuple(exchanges), file.model, file.hilum, file.title, torn)


def _not_a_cassette_error(name: str, problem: str) -> UsageError:
    hint = "See the README of hilum-replay."
    return UsageError(f"{name} is not a cassette: {problem}.", code=E_STORE, hint=hint)


def _parse(text: str, name: str) -> tuple[dict[str, Any], bool]:
    """Parse the TOML and return its data, and whether an incomplete exchange was dropped."""
    try:
        return tomllib.loads(text), False
    except ValueError as error:
        # A killed recording can break the TOML only at its end.
        if "end of document" in str(error) or not text.endswith("\n"):
            for end in _find_last_exchange(text):
                try:
                    return tomllib.loads(text[:end]), True
                except ValueError:
                    continue
        message = f"{name} is not valid TOML: {explain_invalid_toml(error)}."
        hint = "Fix the cassette at that position, or record it again."
        raise UsageError(message, code=E_STORE, hint=hint) from None


def _find_last_exchange(text: str) -> list[int]:
    """Return the positions at which the last, possibly incomplete exchange may begin."""
    ends = []
    last_line = text.rfind("\n") + 1
    if _MARK.startswith(text[last_line:]):
        ends.append(last_line)
    mark = text.rfind(f"\n{_MARK}")
    if mark >= 0:
        ends.append(mark)
    return ends


def _read_exchange(table: _ExchangeTable, place: str, model: str) -> Exchange:
    parts = tuple(_read_part(row, place) for row in table.answer)
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    # Handwritten cassettes may omit `stop`.
    stop = table.end.stop or ("calls" if has_calls else "end")
    return Exchange(
        sent=tuple(_read_sent(row, place) for row in table.sent),
        answer=AssistantMessage(parts, model if table.model is None else table.model, stop),
        usage=table.end.usage,
        first=table.end.first,
        seconds=table.end.seconds,
        agent=table.agent,
        layers=table.layers,
        tools=table.tools,
    )


def _read_sent(row: _SentRow, place: str) -> Sent:
    if row.user is not None:
        return Sent("user", row.user, source=row.source)
    for kind in _PLAIN_KINDS:
        text = getattr(row, kind)
        if text is not None:
            return Sent(kind, text)
    if row.image is not None:
        return Sent("image", row.image, row.call)
    if row.result is not None:
        return Sent("result", row.text, row.result, row.tool, row.code)
    raise UsageError(
        f"A row of `sent` in {place} has no content.",
        code=E_STORE,
        hint="Add one of user, note, summary, result, image or aside.",
    )


def _read_part(row: _AnswerRow, place: str) -> Text | Thinking | ToolCall:
    try:
        vendor = json.loads(row.vendor) if row.vendor else {}
        arguments = row.arguments
        if not isinstance(arguments, str):
            arguments = dump_json(arguments, row.json)
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(
            f"A row of `answer` in {place} cannot be read: {error}.",
            code=E_STORE,
            hint="vendor must be JSON text, and arguments must be valid in JSON.",
        ) from None
    if row.call is not None:
        return ToolCall(row.call, row.tool, arguments, vendor)
    if row.thinking is not None:
        return Thinking(row.thinking, vendor)
    if row.text is not None:
        return Text(row.text, row.source)
    raise UsageError(
        f"A row of `answer` in {place} has no content.",
        code=E_STORE,
        hint="Add one of text, thinking or call.",
    )
