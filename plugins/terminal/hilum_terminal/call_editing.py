"""A form in which the user edits the arguments of a call: one file with a section per argument.

Text arguments are written as they are, so that code and commands can be edited without escape
sequences; other arguments are JSON. A form that was not changed gives back exactly the same
arguments::

    ========== path (text) ==========
    src/app.py
    ========== content (text) ==========
    print("hello")

    ========== end ==========

The text of a section is everything between its header and the next header, without the last line
break. The empty line above thus means that ``content`` ends with a line break.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import attrs
import msgspec
from hilum import UsageError
from hilum.errors import E_BAD_ARGS

MAX_CHARACTERS = 4_000_000
"""Maximum length of the arguments that can be edited."""
MIN_MARK = 10
"""Number of equals signs around the title of a section; more if an argument contains such a line."""
ABOUT = """\
# Edit the call of {tool}, then save the file and close the editor. What is above the first section
# is ignored. A text argument is exactly what is between two headers; an empty last line means that
# the text ends with a line break. Replace (text) or (JSON) by (remove), and delete what follows, to
# remove an argument.
"""
Kind = Literal["text", "text, CRLF", "JSON", "remove"]
UNREADABLE = "The edited call cannot be read."
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_END = "end"


@attrs.frozen
class CallForm:
    """A form, as it is opened in the editor.

    Attributes:
        text: The form.
        mark: Number of equals signs around the title of a section.
        names: The names of the arguments, each of which has a section.
    """

    text: str
    mark: int
    names: tuple[str, ...]


@attrs.define
class _Section:
    """A section of a form.

    Attributes:
        name: Name of the argument.
        kind: How the argument is written.
        line: Number of the header's line.
        body: The lines below the header.
    """

    name: str
    kind: Kind
    line: int
    body: list[str] = attrs.field(factory=list)


# --- writing --------------------------------------------------------------------------------------


def write_form(tool: str, arguments: str) -> CallForm:
    """Return the form for the arguments of a call.

    Args:
        tool: Name of the tool.
        arguments: The arguments, as a JSON object.

    Raises:
        UsageError: The arguments are too long, or they are not a JSON object.
    """
    if len(arguments) > MAX_CHARACTERS:
        raise UsageError(
            f"The call is too long to be edited: its arguments have {len(arguments):,} characters,"
            f" and at most {MAX_CHARACTERS:,} can be edited.",
            code=E_BAD_ARGS,
            hint="Deny the call, and tell the agent what to change.",
        )
    try:
        values = msgspec.json.decode(arguments or "{}", type=dict[str, msgspec.Raw])
        bodies = [(name, *_write_value(bytes(value).strip())) for name, value in values.items()]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        message = "The call cannot be edited, because its arguments are not a JSON object."
        raise UsageError(message, code=E_BAD_ARGS, hint="Deny the call.") from None
    mark = _find_mark(body for _, kind, body in bodies if kind != "JSON")
    parts = [ABOUT.format(tool=tool)]
    for name, kind, body in bodies:
        parts.append(f"{_header(f'{_write_name(name)} ({kind})', mark)}\n{body}\n")
    parts.append(f"{_header(_END, mark)}\n")
    return CallForm("".join(parts), mark, tuple(values))


def _write_value(raw: bytes) -> tuple[Kind, str]:
    """Return how an argument is written, and its text in the form."""
    if raw.startswith(b'"'):
        text = msgspec.json.decode(raw, type=str)
        if "\r" in text and text.count("\r\n") == text.count("\n") == text.count("\r"):
            text = text.replace("\r\n", "\n")
            if not _has_controls(text):
                return "text, CRLF", text
        elif not _has_controls(text):
            return "text", text
    # Editors show control characters in different ways, and some change or obey them.
    return "JSON", _escape_controls(msgspec.json.format(raw, indent=2).decode())


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(mark) == "Cc" for mark in set(text) - {"\n", "\t"})


def _escape_controls(document: str) -> str:
    """Return JSON in which all control characters in strings are escape sequences."""
    # JSON itself requires an escape only for the characters below U+0020.
    return re.sub(r"[\x7f-\x9f\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", document)


def _write_name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    return _escape_controls(json.dumps(name, ensure_ascii=False))


def _header(title: str, mark: int) -> str:
    return f"{'=' * mark} {title} {'=' * mark}"


def _header_pattern(mark: int) -> re.Pattern[str]:
    title = r"(?P<name>\S.*) \((?P<kind>text|text, CRLF|JSON|remove)\)"
    return re.compile(rf"={{{mark}}} (?:{title}|(?P<end>{_END})) ={{{mark}}}")


def _find_mark(texts: Iterable[str]) -> int:
    """Return a number of equals signs for headers that look like no line of the texts."""
    lines = [line for text in texts for line in text.split("\n") if line.startswith("=" * MIN_MARK)]
    mark = MIN_MARK
    while any(_header_pattern(mark).fullmatch(line) for line in lines):
        mark += 1
    return mark


# --- reading --------------------------------------------------------------------------------------


def read_form(text: str, form: CallForm) -> str:
    """Return the arguments in an edited form, as a JSON object.

    Args:
        text: The edited form.
        form: The form as it was opened.

    Raises:
        UsageError: The form is not valid; the message names the line.
    """
    sections = _split(text, form.mark)
    _check_names(sections, form)
    written = []
    for section in sections:
        if section.kind == "remove":
            if any(line.strip() for line in section.body):
                raise _form_error(
                    section.line, f"The removed argument {section.name} still has content."
                )
            continue
        written.append(f"{json.dumps(section.name)}:{_read_value(section)}")
    arguments = f"{{{','.join(written)}}}"
    if len(arguments) > MAX_CHARACTERS:
        raise _form_error(
            0, f"The arguments have {len(arguments):,} characters, more than {MAX_CHARACTERS:,}."
        )
    return arguments


def _split(text: str, mark: int) -> list[_Section]:
    pattern = _header_pattern(mark)
    sections: list[_Section] = []
    end = 0
    for number, line in enumerate(text.split("\n"), start=1):
        header = pattern.fullmatch(line)
        if end:
            if line.strip():
                raise _form_error(number, "There is text after the end.")
        elif header is not None and header["end"]:
            end = number
        elif header is not None:
            name = _read_name(header["name"], number)
            sections.append(_Section(name, header["kind"], number))  # type: ignore[arg-type]
        elif sections:
            sections[-1].body.append(line)
    if not end:
        raise _form_error(0, f"The last line is missing: {_header(_END, mark)}")
    return sections


def _read_name(written: str, line: int) -> str:
    if _PLAIN_NAME.fullmatch(written):
        return written
    try:
        return msgspec.json.decode(written, type=str)
    except (msgspec.DecodeError, UnicodeError):
        raise _form_error(line, f"{written} is not the name of an argument.") from None


def _check_names(sections: Sequence[_Section], form: CallForm) -> None:
    """Check that each argument has one section; otherwise a damaged header would lose a text."""
    seen: set[str] = set()
    for section in sections:
        if section.name in seen:
            raise _form_error(section.line, f"The argument {section.name} occurs twice.")
        seen.add(section.name)
    for name in form.names:
        if name not in seen:
            header = _header(f"{_write_name(name)} (text)", form.mark)
            raise _form_error(
                0, f"The section of {name} is missing, whose header is like: {header}"
            )


def _read_value(section: _Section) -> str:
    """Return the JSON of an argument."""
    body = "\n".join(section.body)
    if section.kind != "JSON":
        if section.kind == "text, CRLF":
            body = body.replace("\n", "\r\n")
        return json.dumps(body, ensure_ascii=False)
    try:
        msgspec.json.decode(body)
        # Of two equal keys, msgspec keeps one and says nothing.
        json.loads(body, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError) as error:
        problem = str(error).rstrip(".") or "it is nested too deeply"
        raise _form_error(
            section.line, f"The argument {section.name} is not valid JSON: {problem}."
        ) from None
    # The text is kept, because decoding and encoding could change a number.
    return body.strip()


def _refuse_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _form_error(line: int, problem: str) -> UsageError:
    place = f"Line {line}: " if line else ""
    return UsageError(
        f"{UNREADABLE} {place}{problem}",
        code=E_BAD_ARGS,
        hint="Edit the call again: your text is kept.",
    )


def write_again(text: str, error: UsageError, form: CallForm) -> str:
    """Return an invalid form as it is opened again: the user's text, with the error at the top."""
    about = form.text[: form.text.index("=" * form.mark)].rstrip("\n").split("\n")
    lines = text.split("\n")
    # Only hilum's own lines are replaced: a damaged header may be followed by lines like "# note".
    while lines and (lines[0] in about or lines[0].startswith(f"# {UNREADABLE}")):
        lines.pop(0)
    head = " ".join(error.message.split())
    return "\n".join([f"# {head}", *about, *lines])
