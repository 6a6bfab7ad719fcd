"""Describes a tool call in the protocol's terms: kind, status, places, diffs and texts."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from hilum import Image, ToolCall
from hilum.command import escape_terminal, make_code_block
from hilum_view import Card, describe_action, parse_arguments, unwrap_call

MAX_TEXT = 20_000
"""Maximum number of characters of a result that an editor gets; the log has the rest."""
MAX_TITLE = 200
MAX_DIFF_HUNKS = 200
MAX_LINE = 2**32 - 1
"""Largest number of a line in the protocol."""

_KINDS = {
    "ask_question": "other",
    "browser_use": "fetch",
    "delete_file": "delete",
    "edit_file": "edit",
    "find_definition": "search",
    "find_references": "search",
    "find_tools": "search",
    "generate_image": "edit",
    "get_agent_result": "read",
    "glob_search": "search",
    "guest_edit": "edit",
    "guest_fetch": "fetch",
    "guest_read": "read",
    "guest_run": "execute",
    "guest_terminal": "execute",
    "handover": "other",
    "list_directory": "read",
    "list_resources": "read",
    "list_services": "read",
    "list_symbols": "search",
    "multi_edit": "edit",
    "read_file": "read",
    "read_lints": "read",
    "read_resource": "read",
    "read_service": "read",
    "recall_result": "read",
    "rename_symbol": "edit",
    "run_terminal_cmd": "execute",
    "search_files": "search",
    "semantic_search": "search",
    "stop_service": "execute",
    "task": "other",
    "todo_write": "think",
    "use_skill": "read",
    "web_fetch": "fetch",
    "web_search": "search",
    "write_file": "edit",
    "write_service": "execute",
}
_KINDS_BY_RISK = {"read": "read", "write": "edit", "execute": "execute", "network": "fetch"}
_ALL_KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other")
# Separates the name of an MCP server from that of its tool.
_SERVER_MARK = "__"
# Stand for an argument. No argument contains them by chance.
_MARK = "argument7f3a"
_MARK_NUMBER = 4_073_518_206
_NO_NEWLINE = "\\"
"""Begins the line of a diff that says that the line before it does not end."""
_STATUSES = {
    "pending": "pending",
    "waiting_for_approval": "pending",
    "running": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "interrupted": "failed",
}
_PATHS = ("path", "file_path", "file")
# What begins or ends markup inside of a line, or makes a list, heading or rule of a line.
_MARKUP = re.compile(r"[\\`*_\[\]<>|~$&]|^[#+=-]|(?<=\d)[.)](?=\s)", re.MULTILINE)
# What Markdown would show in another way in the middle of a single line. Emphasis needs two marks,
# and underscores inside of a word are none; an address may become a link, which shows the same.
_CHANGED = re.compile(
    r"""
    [\\`<\[\]]                      # escapes, code, tags and links
    | &[#\w]                        # entities
    | (?<!\w)_ | _(?!\w)            # emphasis
    | \*.*\* | ~.*~ | \$.*\$        # emphasis, struck text and formulas
    | ^(?: [-#>+=*~|] | \d+[.)]\s ) # blocks
    | \s\s | \s$ | ^\s              # spaces that are joined
    """,
    re.VERBOSE,
)
_MORE_LINES = re.compile(r"\(\+[\d,]+ lines?\)")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def name_call(card: Card) -> str:
    """Return the id of a call, which is unique in the session and the same after a reload.

    The model's own ids are unique only within one response.
    """
    return f"call-{card.id}"


def find_kind(card: Card) -> str:
    """Return the kind of a call, by which editors choose an icon."""
    name, text = unwrap_call(card.call.name, card.arguments)
    if name in _KINDS:
        return _KINDS[name]
    # Another program that works as an agent says itself what kind of call it shows.
    if name.startswith("guest_"):
        kind = (parse_arguments(text) or {}).get("kind")
        return kind if kind in _ALL_KINDS else "other"
    # Until a call is judged, its category is "read", and it must not look harmless.
    is_judged = card.began or card.risk != "read"
    if not is_judged or _SERVER_MARK in name:
        return "other"
    return _KINDS_BY_RISK.get(card.risk, "other")


def find_status(card: Card) -> str:
    """Return the status of a call."""
    return _STATUSES[card.state]


def make_title(card: Card, agent: str, root: Path) -> str:
    """Return the title of a call, on one line: a command itself, or what another call does.

    Args:
        card: The call.
        agent: Display name of the agent that made it; empty for the agent that the user talks to.
        root: The session's folder; paths in it are shown relative to it.
    """
    action = describe_action(card.call.name, card.arguments, str(root))
    name, _ = unwrap_call(card.call.name, card.arguments)
    verb = action.verb
    if verb == name:
        verb = verb.replace(_SERVER_MARK, ": ", 1)
    else:
        verb = f"{verb[:1].upper()}{verb[1:]}"
    details = action.details
    if action.verb == "$":
        verb, details = _split_details(details)
    # The end of a path or command may matter more than its middle.
    subject = _cut_middle(action.subject, MAX_TITLE - len("()") - len(action.details))
    title = " ".join(filter(None, (verb, subject, details)))
    # A model could hide a part of a call with characters that change how text looks.
    title = escape_terminal(title)
    return f"{agent}: {title}" if agent else title or card.call.name


def _split_details(details: str) -> tuple[str, str]:
    """Return what precedes a command in its title, and what follows it.

    What is not part of the command is in parentheses in front of it: in no shell is a word after
    closing parentheses a command, so no other command has the same title.
    """
    found = _MORE_LINES.match(details)
    after = found[0] if found is not None else ""
    before = details[len(after) :].strip()
    return f"({before})" if before else "", after


def _cut_middle(text: str, limit: int) -> str:
    limit = max(limit, MAX_TITLE // 2)
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail - 1]}…{text[-tail:]}"


def find_locations(card: Card, root: Path) -> list[dict[str, Any]]:
    """Return the files that a call reads or changes, which editors follow."""
    arguments = parse_arguments(card.arguments) or {}
    path = next((arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)), "")
    if not path:
        return _find_guest_locations(card, arguments, root)
    location: dict[str, Any] = {"path": make_absolute(path, root)}
    line = arguments.get("start_line") or arguments.get("offset") or find_first_line(card.diff)
    if isinstance(line, int) and 0 < line <= MAX_LINE:
        location["line"] = line
    return [location]


def _find_guest_locations(
    card: Card, arguments: Mapping[str, Any], root: Path
) -> list[dict[str, Any]]:
    """Return the files that a call of another program concerns."""
    paths = arguments.get("paths")
    if card.call.name not in ("guest_edit", "guest_read") or not isinstance(paths, list):
        return []
    return [{"path": make_absolute(path, root)} for path in paths if isinstance(path, str)]


def make_absolute(path: str, root: Path) -> str:
    """Return an absolute path; links are not resolved, because the editor knows the given name.

    Only ``~/`` is expanded, as by ``Workspace.resolve``, so that the editor shows the file that the
    tool uses: for a tool, ``~name`` is the name of a file.
    """
    return str(root / (os.path.expanduser(path) if path.startswith("~/") else path))


def find_first_line(diff: str) -> int:
    """Return the first line that a unified diff shows; 0 if there is none."""
    match = _HUNK.search(diff)
    return int(match[1]) if match else 0


def make_content(card: Card, root: Path) -> list[dict[str, Any]]:
    """Return what an editor shows of a call: its diff, its output or its result."""
    if not card.ended:
        return [make_text_content(fence(card.output))] if card.output else []
    content: list[dict[str, Any]] = []
    locations = find_locations(card, root)
    if card.diff and locations and not card.code:
        content += make_diffs(
            card.diff, locations[0]["path"], is_new=bool(card.data.get("created"))
        )
    if not content:
        text = cut(_describe_result(card))
        if text.strip():
            # Editors show texts as Markdown. A result could contain anything: a link to an image,
            # which the editor would load, or what looks like a message of hilum.
            content.append(make_text_content(fence(text)))
    assert card.result is not None
    for part in card.result.parts:
        if isinstance(part, Image) and part.data:
            data = base64.b64encode(part.data).decode()
            image = {"type": "image", "mimeType": part.media_type, "data": data}
            content.append({"type": "content", "content": image})
    return content


def _describe_result(card: Card) -> str:
    """Return the result of a call for people, without the code of a refusal."""
    return card.user_text.removeprefix(f"{card.code}: ") if card.refused_by else card.user_text


def make_text_content(text: str) -> dict[str, Any]:
    """Return content with a text in Markdown."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def fence(text: str) -> str:
    """Return a text as a block of code, whatever backticks it contains."""
    return make_code_block(text.rstrip(), "text")


def escape_markdown(text: str) -> str:
    """Return a text so that Markdown shows exactly its characters, with its line breaks."""
    # At the beginning of a line, four spaces would make code.
    lines = "\n".join(line.strip() for line in text.splitlines())
    escaped = _MARKUP.sub(r"\\\g<0>", lines)
    # Some editors make links of addresses without any markup.
    escaped = escaped.replace("://", r":\/\/")
    # Two spaces at the end of a line keep its line break.
    return escaped.replace("\n", "  \n")


def is_shown_as_written(line: str) -> bool:
    """Return whether an editor that takes a line for Markdown shows exactly its characters."""
    return _CHANGED.search(line) is None


def find_arguments_in_title(card: Card, root: Path) -> list[str]:
    """Return the names of the arguments that the title of a call contains in full.

    To find out, each argument is replaced: the title contains it if it changes in just this way.
    """
    name, text = unwrap_call(card.call.name, card.arguments)
    arguments = parse_arguments(text) or {}
    title = make_title(card, "", root)
    if not is_shown_as_written(title):
        return []
    return [key for key in arguments if _is_argument_in_title(name, arguments, key, title, root)]


def _is_argument_in_title(
    name: str, arguments: Mapping[str, Any], key: str, title: str, root: Path
) -> bool:
    value = arguments[key]
    if isinstance(value, bool):
        return _title_with(name, {**arguments, key: not value}, root) != title
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return _is_in_title(value[0], _title_with(name, {**arguments, key: [_MARK]}, root), title)
    if isinstance(value, str):
        shown = [value, value.removeprefix(f"{root}/"), value.removeprefix("https://")]
        marked = _title_with(name, {**arguments, key: _MARK}, root)
        return any(_is_in_title(each, marked, title) for each in shown)
    if isinstance(value, int):
        marked = _title_with(name, {**arguments, key: _MARK_NUMBER}, root)
        plain = marked.replace(f"{_MARK_NUMBER:,}", _MARK).replace(str(_MARK_NUMBER), _MARK)
        return any(_is_in_title(each, plain, title) for each in (str(value), f"{value:,}"))
    return False


def _title_with(name: str, arguments: Mapping[str, Any], root: Path) -> str:
    call = ToolCall("", name, json.dumps(arguments, ensure_ascii=False))
    return make_title(Card(id=0, call=call), "", root)


def _is_in_title(text: str, marked: str, title: str) -> bool:
    """Return whether a title has a text where the marked title has the mark."""
    return _MARK in marked and marked.replace(_MARK, text) == title


def cut(text: str) -> str:
    """Return the beginning of a text that is too long for an editor."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[… {len(text) - MAX_TEXT:,} more characters]"


def make_diffs(diff: str, path: str, *, is_new: bool = False) -> list[dict[str, Any]]:
    """Return a unified diff of one file as the protocol's diffs, one for each hunk.

    If there are too many, a text says how many more there are.
    """
    found: list[dict[str, Any]] = []
    more = 0
    for old, new in split_hunks(diff):
        if len(found) == MAX_DIFF_HUNKS:
            more += 1
            continue
        item: dict[str, Any] = {"type": "diff", "path": path, "newText": new}
        if not is_new:
            item["oldText"] = old
        found.append(item)
    if more:
        found.append(make_text_content(f"{more:,} more parts of the file were changed."))
    return found


def split_hunks(diff: str) -> Iterator[tuple[str, str]]:
    """Yield the old and the new text of each hunk of a unified diff."""
    old: list[str] = []
    new: list[str] = []
    is_inside = False
    mark = " "
    # Other line separators are characters of a line.
    for line in re.findall(r"[^\n]*\n|[^\n]+", diff):
        if _HUNK.match(line):
            if is_inside:
                yield "".join(old), "".join(new)
            old, new, is_inside = [], [], True
            mark = " "
        elif is_inside and line[:1] == _NO_NEWLINE:
            # The line before it has no line break.
            if mark != "+" and old:
                old[-1] = old[-1].removesuffix("\n")
            if mark != "-" and new:
                new[-1] = new[-1].removesuffix("\n")
        elif is_inside and line[:1] in (" ", "-", "+"):
            mark = line[0]
            if mark != "+":
                old.append(line[1:])
            if mark != "-":
                new.append(line[1:])
    if is_inside:
        yield "".join(old), "".join(new)


@attrs.frozen
class Preview:
    """The diffs of a change that has not been made.

    Attributes:
        diffs: The diffs, as content of the protocol.
        missing: What of the call the diffs do not show, as the end of a sentence; empty if they
            show all of it.
    """

    diffs: list[dict[str, Any]] = attrs.field(factory=list)
    missing: str = ""


def preview_change(
    tool: str, arguments: Mapping[str, Any], path: str, before: str | None
) -> Preview:
    """Return the diffs of a change that has not been made, for the question whether it may be.

    Args:
        tool: The name of the tool.
        arguments: The arguments of the call.
        path: The absolute path of the file.
        before: The text of the file; ``None`` if there is none.
    """
    if tool == "write_file" and isinstance(arguments.get("content"), str):
        item: dict[str, Any] = {"type": "diff", "path": path, "newText": arguments["content"]}
        if before is not None:
            item["oldText"] = before
        missing = _name_rest(arguments, "content") or _find_invisible(arguments["content"])
        return Preview([item], missing)
    if tool == "edit_file":
        return _preview_edits([arguments], path, "")
    if tool == "multi_edit" and isinstance(arguments.get("edits"), list):
        return _preview_edits(arguments["edits"], path, _name_rest(arguments, "edits"))
    return Preview()


def _preview_edits(edits: Sequence[Any], path: str, missing: str) -> Preview:
    """Return the diffs of edits; ``missing`` is what they do not show of the rest of the call."""
    diffs = []
    for edit in edits[:MAX_DIFF_HUNKS]:
        old = edit.get("old_string") if isinstance(edit, Mapping) else None
        new = edit.get("new_string") if isinstance(edit, Mapping) else None
        if not isinstance(old, str) or not isinstance(new, str):
            missing = missing or "an edit that has no text to replace"
            continue
        diffs.append({"type": "diff", "path": path, "oldText": old, "newText": new})
        missing = missing or _name_rest(edit, "old_string", "new_string")
        missing = missing or _find_invisible(old) or _find_invisible(new)
    if len(edits) > MAX_DIFF_HUNKS:
        missing = f"{len(edits) - MAX_DIFF_HUNKS:,} more edits"
    return Preview(diffs, missing)


def _find_invisible(text: str) -> str:
    """Return that a text has characters that a diff may not show; empty if it has none."""
    lines = text.replace("\r\n", "\n")
    if escape_terminal(lines) == lines:
        return ""
    return "characters that are invisible or change how text looks"


def _name_rest(arguments: Mapping[str, Any], *shown: str) -> str:
    """Return the names of the arguments that a diff does not show."""
    rest = arguments.keys() - {"path", *shown}
    return ", ".join(sorted(map(str, rest)))
