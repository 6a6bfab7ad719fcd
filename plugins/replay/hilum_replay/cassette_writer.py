"""Writes a cassette as TOML text, one ``[[exchange]]`` after the other.

Why TOML: a cassette is reviewed in diffs and sometimes written by hand, so each line of its texts
must be a line of the file. JSON (and JSON Lines) puts text on one line full of ``\\n``; YAML
would require a dependency. The standard library reads TOML; writing the required subset takes only
a few functions. No library is used, because none chooses the string style that needs the fewest
escapes.

Every text is preserved exactly: characters that TOML or an editor would change (carriage returns,
trailing whitespace, control characters) are escaped. Exchanges are only appended, so a killed
recording is a valid cassette up to its last complete exchange: ``stop`` is written last in each
exchange, and no text can contain a line that looks like ``[[exchange]]``.

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
from collections.abc import Mapping
from os import PathLike
from typing import Any

import msgspec
from hilum.messages import Text, Thinking, ToolCall, Usage

from hilum_replay.cassette import Cassette, Exchange, Sent

FORMAT = 1
# The separators of the two common JSON styles.
JSON_STYLES = {"compact": (",", ":"), "spaced": (", ", ": ")}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")
# Editors strip trailing blanks.
_BLANK_AT_END = re.compile(r"[ \t](?=\n|\Z)")
# Text that the reader of a torn cassette would mistake for the beginning of an exchange.
_EXCHANGE_MARK = re.compile(r"^\[(?=\[exchange)", re.MULTILINE)
_LEGEND = (
    "# {workspace} is the folder of the session, {home} the user's; [REDACTED:NAME] stands for a"
    " secret."
)


def save(cassette: Cassette, path: str | PathLike[str]) -> None:
    """Write a cassette to a file."""
    # Line endings are not translated, so that the file is the same on all systems.
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(dumps(cassette))


def dumps(cassette: Cassette) -> str:
    """Return a cassette as text."""
    texts = [write_header(cassette)]
    for number, exchange in enumerate(cassette.exchanges, 1):
        texts.append(write_exchange(number, exchange, cassette.model))
    return "".join(texts)


def write_header(cassette: Cassette) -> str:
    """Return the text before the first exchange."""
    fields = {"title": cassette.title, "model": cassette.model, "hilum": cassette.hilum}
    lines = [f"format = {FORMAT}", _LEGEND]
    lines += [_field(key, value) for key, value in fields.items() if value]
    return "\n".join(lines) + "\n"


def write_exchange(number: int, exchange: Exchange, model: str = "") -> str:
    """Return the text of one exchange.

    Args:
        number: Number of the exchange, starting at 1; for readers only.
        exchange: The exchange to write.
        model: The model in the header, which the exchange does not repeat.
    """
    lines = ["", f"[[exchange]]  # {number}"]
    if exchange.agent != "main":
        lines.append(_field("agent", exchange.agent))
    if exchange.answer.model != model:
        lines.append(_field("model", exchange.answer.model))
    lines += _write_names("layers", exchange.layers)
    lines += _write_names("tools", exchange.tools)
    for sent in exchange.sent:
        lines += ["", "[[exchange.sent]]", *_write_sent(sent)]
    for part in exchange.answer.parts:
        lines += ["", "[[exchange.answer]]", *_write_part(part)]
    lines += ["", "[exchange.end]", *_write_end(exchange)]
    return "\n".join(lines) + "\n"


def _write_names(key: str, names: tuple[str, ...] | None) -> list[str]:
    if names is None:
        return []
    if not names:
        return [f"{key} = []"]
    # Write one name per line, so that a diff shows the changed layer or tool.
    lines = [f"{key} = ["]
    for name in names:
        lines.append(f"  {_string(name)},")
    lines.append("]")
    return lines


def _write_end(exchange: Exchange) -> list[str]:
    lines = []
    if exchange.usage != Usage():
        lines.append(_field("usage", msgspec.to_builtins(exchange.usage)))
    if exchange.first:
        lines.append(_field("first", float(exchange.first)))
    if exchange.seconds:
        lines.append(_field("seconds", float(exchange.seconds)))
    return [*lines, _field("stop", exchange.answer.stop)]


def _write_sent(sent: Sent) -> list[str]:
    # The text comes last, because it may have many lines.
    lines = []
    if sent.kind == "image":
        lines.append(_field("image", sent.text))
        if sent.call:
            lines.append(_field("call", sent.call))
        return lines
    if sent.kind == "result":
        lines.append(_field("result", sent.call))
        lines.append(_field("tool", sent.tool))
        if sent.code:
            lines.append(_field("code", sent.code))
        lines.append(_field("text", sent.text))
        return lines
    if sent.source:
        lines.append(_field("source", sent.source))
    lines.append(_field(sent.kind, sent.text))
    return lines


def _write_part(part: Text | Thinking | ToolCall) -> list[str]:
    lines = []
    if isinstance(part, Text):
        lines.append(_field("text", part.text))
        if part.source != "model":
            lines.append(_field("source", part.source))
        return lines
    if isinstance(part, Thinking):
        lines.append(_field("thinking", part.text))
    else:
        lines.append(_field("call", part.id))
        lines.append(_field("tool", part.name))
        lines += _write_arguments(part.arguments)
    if part.vendor:
        # Vendor data is written as JSON, because it may contain values that TOML does not support.
        vendor = json.dumps(part.vendor, ensure_ascii=False)
        lines.append(_field("vendor", vendor))
    return lines


def _write_arguments(text: str) -> list[str]:
    """Write arguments as readable keys if that reproduces the same text."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    style = None
    if isinstance(data, dict) and _is_toml(data):
        style = _find_style(data, text)
    if style is None:
        # The arguments are not an object, or contain whitespace or escapes that would be lost.
        return [_field("arguments", text)]
    lines = []
    if style != "compact":
        lines.append(_field("json", style))
    if not data:
        lines.append("arguments = {}")
    for key, value in data.items():
        name = _key(key)
        lines.append(_field(f"arguments.{name}", value))
    return lines


def _find_style(data: dict[str, Any], text: str) -> str | None:
    for style in JSON_STYLES:
        if dump_json(data, style) == text:
            return style
    return None


def dump_json(data: Any, style: str) -> str:
    """Return data as JSON in one of the two common styles."""
    return json.dumps(data, ensure_ascii=False, separators=JSON_STYLES[style])


def _is_toml(value: Any) -> bool:
    """Return whether TOML and JSON support a value: not null, infinite, or beyond 64 bits."""
    if isinstance(value, dict):
        return all(map(_is_toml, value.values()))
    if isinstance(value, list):
        return all(map(_is_toml, value))
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, float):
        return abs(value) < float("inf")
    return value is not None


# --- values ---------------------------------------------------------------------------------------


def _field(key: str, value: Any) -> str:
    return f"{key} = {_value(value)}"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _one_line(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return _inline_table(value)
    if isinstance(value, list):
        items = ", ".join(map(_value, value))
        return f"[{items}]"
    # repr returns the shortest form that is read as the same number.
    return repr(value)


def _inline_table(table: Mapping[str, Any]) -> str:
    if not table:
        return "{}"
    pairs = []
    for key, value in table.items():
        pairs.append(_field(_key(key), value))
    joined = ", ".join(pairs)
    return f"{{ {joined} }}"


def _string(text: str) -> str:
    """Return a text in the TOML string style that needs the fewest escapes."""
    has_control = bool(_CONTROL.search(text))
    if "\n" not in text:
        needs_escapes = "\\" in text or '"' in text
        if needs_escapes and not has_control and "'" not in text:
            return f"'{text}'"
        return _one_line(text)
    needs_escapes = "\\" in text or '"""' in text
    if needs_escapes and not has_control and _fits_literal(text):
        return f"'''\n{text}'''"
    return _escaped_lines(text)


def _fits_literal(text: str) -> bool:
    """Return whether a text of several lines can be written without escapes."""
    if "'''" in text or text.endswith("'"):
        return False
    return not _BLANK_AT_END.search(text) and not _EXCHANGE_MARK.search(text)


def _escaped_lines(text: str) -> str:
    # Backslashes are escaped first, because the other steps add some.
    text = text.replace("\\", "\\\\")
    text = text.replace('"""', '""\\"')
    for pattern in (_CONTROL, _BLANK_AT_END, _EXCHANGE_MARK):
        text = pattern.sub(_escape, text)
    # A trailing quote would merge with the closing quotes.
    if text.endswith('"') and not text.endswith('\\"'):
        text = text[:-1] + '\\"'
    return f'"""\n{text}"""'


def _one_line(text: str) -> str:
    text = text.replace("\\", "\\\\")
    text = text.replace('"', '\\"').replace("\n", "\\n")
    escaped = _CONTROL.sub(_escape, text)
    return f'"{escaped}"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char == "\t":
        return "\\t"
    if char == "\r":
        return "\\r"
    return f"\\u{ord(char):04X}"
