"""The text of a cassette: TOML, one ``[[exchange]]`` after the other.

Why TOML: a cassette is reviewed in a diff and sometimes written by hand, so texts must stand there
line by line. JSON (and JSON Lines) puts a file into one line full of ``\\n``; YAML would be a
dependency. The standard library reads TOML; writing the little that is needed takes a few functions
here. Every text comes back exactly as it was: what TOML or an editor would change (carriage
returns, blanks at line ends, control characters) is escaped. Exchanges are only ever appended, so a
recording that was killed is a cassette up to its last whole exchange: ``stop`` is the last thing
written of each, and no text can hold a line that looks like ``[[exchange]]``.

::

    format = 1
    model = "anthropic/some-model"

    [[exchange]]  # 1

    [[exchange.sent]]
    user = "Say hello in hello.txt"

    [[exchange.answer]]
    call = "c1"
    tool = "write_file"
    arguments.path = "{workspace}/hello.txt"
    arguments.content = "hello\\n"

    [exchange.end]
    stop = "calls"
"""

from __future__ import annotations

import json
import re
import tomllib
from os import PathLike
from typing import Any, Literal

import msgspec
from hilum.errors import E_FILE_NOT_FOUND, UsageError
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage

from hilum_replay.cassette import Cassette, Exchange, Sent

FORMAT = 1
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")
_LINE_END = re.compile(r"[ \t](?=\n|\Z)")
_MARK = re.compile(r"^\[(?=\[exchange)", re.MULTILINE)
_LEGEND = (
    "# {workspace} is the folder of the session, {home} the user's; [REDACTED:NAME] stands for a"
    " secret."
)
_STYLES = {"compact": (",", ":"), "spaced": (", ", ": ")}


# --- writing --------------------------------------------------------------------------------------


def save(cassette: Cassette, path: str | PathLike[str]) -> None:
    """Write a cassette to a file."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(dumps(cassette))


def dumps(cassette: Cassette) -> str:
    """Write a cassette as text."""
    exchanges = (
        write_exchange(n, exchange, cassette.model)
        for n, exchange in enumerate(cassette.exchanges, 1)
    )
    return write_header(cassette) + "".join(exchanges)


def write_header(cassette: Cassette) -> str:
    """Write what stands before the first exchange."""
    fields = {"title": cassette.title, "model": cassette.model, "hilum": cassette.hilum}
    lines = [
        f"format = {FORMAT}",
        *(f"{key} = {_string(value)}" for key, value in fields.items() if value),
    ]
    return "\n".join([lines[0], _LEGEND, *lines[1:]]) + "\n"


def write_exchange(number: int, exchange: Exchange, model: str = "") -> str:
    """Write one exchange.

    Args:
        number: Counts from 1, for readers only.
        exchange: What to write.
        model: The model in the header; it is not said again.
    """
    lines = ["", f"[[exchange]]  # {number}"]
    if exchange.agent != "main":
        lines.append(f"agent = {_string(exchange.agent)}")
    if exchange.answer.model != model:
        lines.append(f"model = {_string(exchange.answer.model)}")
    for key in ("layers", "tools"):
        names = getattr(exchange, key)
        if names is not None:
            lines.append(
                f"{key} = ["
                + "".join(f"\n  {_string(name)}," for name in names)
                + ("\n]" if names else "]")
            )
    for sent in exchange.sent:
        lines += ["", "[[exchange.sent]]", *_write_sent(sent)]
    for part in exchange.answer.parts:
        lines += ["", "[[exchange.answer]]", *_write_part(part)]
    return "\n".join([*lines, "", "[exchange.end]", *_write_end(exchange)]) + "\n"


def _write_end(exchange: Exchange) -> list[str]:
    lines = []
    if exchange.usage != Usage():
        lines.append(f"usage = {_value(msgspec.to_builtins(exchange.usage))}")
    for key in ("first", "seconds"):
        if getattr(exchange, key):
            lines.append(f"{key} = {float(getattr(exchange, key))!r}")
    return [*lines, f"stop = {_string(exchange.answer.stop)}"]


def _write_sent(sent: Sent) -> list[str]:
    if sent.kind in ("user", "note", "summary", "aside"):
        source = [f"source = {_string(sent.source)}"] if sent.source else []
        return [*source, f"{sent.kind} = {_string(sent.text)}"]
    if sent.kind == "image":
        return [
            f"image = {_string(sent.text)}",
            *([f"call = {_string(sent.call)}"] if sent.call else []),
        ]
    lines = [f"result = {_string(sent.call)}", f"tool = {_string(sent.tool)}"]
    if sent.code:
        lines.append(f"code = {_string(sent.code)}")
    return [*lines, f"text = {_string(sent.text)}"]


def _write_part(part: Text | Thinking | ToolCall) -> list[str]:
    if isinstance(part, Text):
        source = [f"source = {_string(part.source)}"] if part.source != "model" else []
        return [f"text = {_string(part.text)}", *source]
    if isinstance(part, Thinking):
        lines = [f"thinking = {_string(part.text)}"]
    else:
        lines = [
            f"call = {_string(part.id)}",
            f"tool = {_string(part.name)}",
            *_write_arguments(part.arguments),
        ]
    if part.vendor:
        lines.append(f"vendor = {_string(json.dumps(part.vendor, ensure_ascii=False))}")
    return lines


def _write_arguments(text: str) -> list[str]:
    """Write arguments as keys where that gives the same text back, so that a written file reads as
    a file.
    """
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, dict) or not _plain(data):
        return [f"arguments = {_string(text)}"]
    style = next((style for style in _STYLES if _dump(data, style) == text), None)
    if style is None:
        return [f"arguments = {_string(text)}"]
    lines = [] if style == "compact" else [f'json = "{style}"']
    return lines + (
        [f"arguments.{_key(k)} = {_value(v)}" for k, v in data.items()] or ["arguments = {}"]
    )


def _plain(value: Any) -> bool:
    """Return whether TOML can hold it: no null, no whole number beyond 64 bits, no infinity."""
    if isinstance(value, dict):
        return all(_plain(item) for item in value.values())
    if isinstance(value, list):
        return all(_plain(item) for item in value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, float):
        return abs(value) < float("inf")
    return value is not None


def _dump(data: Any, style: str) -> str:
    return json.dumps(data, ensure_ascii=False, separators=_STYLES[style])


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _line(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        if value:
            return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
        return "{}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return repr(value)


def _string(text: str) -> str:
    """Write a text in the TOML form that needs the fewest escapes."""
    odd = bool(_CONTROL.search(text))
    if "\n" not in text:
        if not odd and "'" not in text and ("\\" in text or '"' in text):
            return f"'{text}'"
        return _line(text)
    literal = (
        not odd and "'''" not in text and not text.endswith("'") and not _LINE_END.search(text)
    )
    if literal and ("\\" in text or '"""' in text) and not _MARK.search(text):
        return f"'''\n{text}'''"
    text = text.replace("\\", "\\\\").replace('"""', '""\\"')
    text = _LINE_END.sub(_escape, _CONTROL.sub(_escape, text))
    text = _MARK.sub(_escape, text)
    if text.endswith('"') and not text.endswith('\\"'):
        text = text[:-1] + '\\"'
    return f'"""\n{text}"""'


def _line(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{_CONTROL.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return {"\t": "\\t", "\r": "\\r"}.get(char, f"\\u{ord(char):04X}")


# --- reading --------------------------------------------------------------------------------------


class _Row(msgspec.Struct, forbid_unknown_fields=True):
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


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    """A row of ``exchange.answer``."""

    text: str | None = None
    thinking: str | None = None
    call: str | None = None
    tool: str = ""
    arguments: str | dict[str, Any] = "{}"
    json: Literal["compact", "spaced"] = "compact"
    vendor: str = ""
    source: str = "model"


class _End(msgspec.Struct, forbid_unknown_fields=True):
    usage: Usage = Usage()
    first: float = 0.0
    seconds: float = 0.0
    stop: Literal["end", "calls", "length", "refusal"] | None = None


class _Exchange(msgspec.Struct, forbid_unknown_fields=True):
    sent: list[_Row] = []
    answer: list[_Part] = []
    end: _End = msgspec.field(default_factory=_End)
    agent: str = "main"
    model: str | None = None
    layers: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    exchange: list[_Exchange] = []
    model: str = ""
    hilum: str = ""
    title: str = ""


def load(path: str | PathLike[str]) -> Cassette:
    """Read a cassette from a file.

    Raises:
        UsageError: The file is not there or is not a cassette.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        hint = "Record one with `hilum run --record FILE`."
        raise UsageError(
            f"Cannot read the cassette {path}: {reason}.", code=E_FILE_NOT_FOUND, hint=hint
        ) from None
    return loads(text, str(path))


def loads(text: str, name: str = "the cassette") -> Cassette:
    """Read a cassette from its text; a torn last exchange is dropped and said.

    Args:
        text: What ``write_header`` and ``write_exchange`` wrote, or a hand.
        name: How messages call the cassette.

    Raises:
        UsageError: The text is not a cassette; the message names the place.
    """
    if not text.strip():
        raise UsageError(f"{name} is empty: nothing was recorded.", hint="Record it again.")
    data, torn = _parse(text, name)
    try:
        file = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{name} is not a cassette: {error}.", hint="See the README of hilum-replay."
        ) from None
    if file.format != FORMAT:
        hint = "Update hilum-replay, or record it again."
        raise UsageError(
            f"{name} has cassette format {file.format}; this hilum-replay reads {FORMAT}.",
            hint=hint,
        )
    rows = file.exchange
    if (
        rows and file.hilum and rows[-1].end.stop is None
    ):  # recorded, and cut where the rest happens to be valid TOML
        rows = rows[:-1]
        torn = True
    exchanges = tuple(
        _read_exchange(row, f"exchange {n} of {name}", file.model) for n, row in enumerate(rows, 1)
    )
    return Cassette(exchanges, file.model, file.hilum, file.title, torn)


def _parse(text: str, name: str) -> tuple[dict[str, Any], bool]:
    """Parse the TOML.

    Of a text that breaks off, what stands before its last exchange, and ``True``.
    """
    try:
        return tomllib.loads(text), False
    except tomllib.TOMLDecodeError as error:
        if "end of document" in str(error) or not text.endswith("\n"):
            for cut in _last_exchange(text):
                try:
                    return tomllib.loads(text[:cut]), True
                except tomllib.TOMLDecodeError:
                    continue
        raise UsageError(
            f"{name} is not valid TOML: {error}.", hint="Correct that place, or record it again."
        ) from None


def _last_exchange(text: str) -> list[int]:
    """Where the last exchange may begin: at its mark, of which only a part may have been
    written.
    """
    last = text.rfind("\n") + 1
    partial = [last] if "[[exchange]]".startswith(text[last:]) else []
    mark = text.rfind("\n[[exchange]]")
    return partial + ([mark] if mark >= 0 else [])


def _read_exchange(row: _Exchange, place: str, model: str) -> Exchange:
    parts = tuple(_read_part(part, place) for part in row.answer)
    calls = any(isinstance(part, ToolCall) for part in parts)
    stop = row.end.stop or ("calls" if calls else "end")
    answer = AssistantMessage(parts, row.model if row.model is not None else model, stop)
    sent = tuple(_read_sent(item, place) for item in row.sent)
    end = row.end
    return Exchange(
        sent, answer, end.usage, end.first, end.seconds, row.agent, row.layers, row.tools
    )


def _read_sent(row: _Row, place: str) -> Sent:
    if row.user is not None:
        return Sent("user", row.user, source=row.source)
    if row.note is not None:
        return Sent("note", row.note)
    if row.summary is not None:
        return Sent("summary", row.summary)
    if row.aside is not None:
        return Sent("aside", row.aside)
    if row.image is not None:
        return Sent("image", row.image, row.call)
    if row.result is not None:
        return Sent("result", row.text, row.result, row.tool, row.code)
    hint = "Give it one of user, note, summary, result, image or aside."
    raise UsageError(f"A row of `sent` in {place} says nothing.", hint=hint)


def _read_part(row: _Part, place: str) -> Text | Thinking | ToolCall:
    try:
        vendor = json.loads(row.vendor) if row.vendor else {}
        if isinstance(row.arguments, str):
            arguments = row.arguments
        else:
            arguments = _dump(row.arguments, row.json)
    except (ValueError, TypeError) as error:
        hint = "vendor is JSON text, arguments are what JSON can hold."
        raise UsageError(
            f"A row of `answer` in {place} cannot be read: {error}.", hint=hint
        ) from None
    if row.call is not None:
        return ToolCall(row.call, row.tool, arguments, vendor)
    if row.thinking is not None:
        return Thinking(row.thinking, vendor)
    if row.text is not None:
        return Text(row.text, row.source)
    raise UsageError(
        f"A row of `answer` in {place} says nothing.", hint="Give it one of text, thinking or call."
    )
