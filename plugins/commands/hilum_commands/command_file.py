"""Reads a command from a Markdown or TOML file, or from a table of a configuration file."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs
from hilum.config_files import LoadedFile, UnreadableFile, load_file
from hilum.frontmatter import Document, Problem, flag, names, read, split_tools, text

from hilum_commands.sources import CommandSource, Dialect
from hilum_commands.template import (
    FileReference,
    Piece,
    ShellInsert,
    TemplateError,
    split_template,
)

MAX_BYTES = 1_000_000
MAX_NAME = 100
MAX_SUMMARY = 300
_TOOL_KEYS = ("allowed-tools", "allowed_tools", "tools")
_AGENT_KEYS = ("agent", "mode")
_HINT_KEYS = ("argument-hint", "argument_hint")
_FIELDS = frozenset(
    (*_TOOL_KEYS, *_AGENT_KEYS, *_HINT_KEYS, "description", "model", "name", "subtask", "hooks")
)
# The table of commands in opencode's configuration; the second name is that of version 2.
_TABLES = ("command", "commands")
_INCLUDE = re.compile(r"\{file:([^}\n]+)\}")
# What looks like a place for an argument, and is none: the variables of VS Code, and `{{args_1}}`.
_VARIABLES: dict[Dialect, re.Pattern[str]] = {
    "copilot": re.compile(r"\$\{[A-Za-z][^}\s]*\}"),
    "gemini": re.compile(r"\{\{\s*arg(?:s?[_.\[]?\d+\]?)?\s*\}\}"),
}
_TOML_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)$")


@attrs.frozen
class CommandFile:
    """A command as its file defines it.

    Attributes:
        name: The name, without the slash.
        path: The file.
        source: The folder or configuration file that the command comes from.
        qualified: The name with the folders below the source, separated by colons.
        pieces: The text of the command.
        summary: A description on one line.
        hint: The arguments as the file describes them.
        model: The model that the file names.
        agent: The agent that the file names.
        tools: The tools that the file allows; ``None`` for all.
        is_subtask: Whether an agent with a conversation of its own carries out the command.
        problems: What is wrong with the file, with lines.
        error: Why the command cannot be used; empty if it can.
        includes: Other files whose text is part of the text.
    """

    name: str
    path: Path
    source: CommandSource
    qualified: str = ""
    pieces: tuple[Piece, ...] = ()
    summary: str = ""
    hint: str = ""
    model: str = ""
    agent: str = ""
    tools: tuple[str, ...] | None = None
    is_subtask: bool = False
    problems: tuple[Problem, ...] = ()
    error: str = ""
    includes: tuple[Path, ...] = ()

    @property
    def dialect(self) -> Dialect:
        """The program whose format the file has."""
        return self.source.dialect

    def describe_problems(self) -> list[str]:
        """Return each problem as a line with the file and the line in it."""
        return [f"{self.path}:{each.line}: {each.message}" for each in self.problems]


def load_command_file(path: Path, source: CommandSource) -> CommandFile:
    """Read a command file. Blocks, and raises nothing for bad input.

    Args:
        path: The file.
        source: The folder in which it was found.
    """
    name, qualified = _make_names(path, source)
    empty = CommandFile(name, path, source, qualified)
    try:
        data = read_bytes(path)
    except OSError as error:
        return _fail(empty, 1, f"The file cannot be read: {error.strerror or error}.")
    if path.suffix.casefold() == ".toml":
        return _load_toml(empty, data)
    document = read(data, raw=frozenset(_HINT_KEYS))
    written = data.decode(errors="replace")
    kept = [line for line in written.splitlines() if line.strip() != "---"]
    is_empty = not document.body.strip() and any(map(str.strip, kept))
    if is_empty and not _FIELDS.intersection(document.fields):
        # Some people write the whole text between two lines of dashes.
        command = attrs.evolve(empty, summary=_shorten(_find_first_line("\n".join(kept))))
        return _split_text(command, "\n".join(kept).strip("\n"), 2)
    return _load_document(empty, document, written)


def load_config_file(source: CommandSource) -> list[CommandFile]:
    """Return the commands in a configuration file of opencode. Blocks.

    If the file cannot be read, the only entry says so; a missing file has none.
    """
    broken = CommandFile(source.path.name, source.path, source)
    if not os.path.lexists(source.path):
        return []
    try:
        loaded = load_file(source.path)
    except UnreadableFile as error:
        return [_fail(broken, max(error.line, 1), f"The commands in it cannot be used: {error}")]
    found: list[CommandFile] = []
    for key in _TABLES:
        table = loaded.data.get(key)
        if isinstance(table, dict):
            found += [_load_entry([key, name], table[name], source, loaded) for name in table]
        elif table is not None:
            reason = f"`{key}` must be a mapping of names to commands."
            found.append(_fail(broken, loaded.find_line([key]), reason))
    return found


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file of limited size. Blocks.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
    """
    # Without O_NONBLOCK, opening a named pipe in a cloned project could block forever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        if status.st_size > MAX_BYTES:
            raise OSError(0, f"it has {status.st_size:,} bytes, more than {MAX_BYTES:,}")
        return stream.read(MAX_BYTES)


def _make_names(path: Path, source: CommandSource) -> tuple[str, str]:
    """Return the name of the command in a file, and the name with its folders."""
    parts = list(path.relative_to(source.path).parts)
    ending = next(each for each in source.endings if parts[-1].casefold().endswith(each))
    parts[-1] = parts[-1][: -len(ending)]
    cleaned = [clean_name(part) for part in parts]
    qualified = ":".join(cleaned)
    # In Gemini CLI, the folders are part of the name.
    name = qualified if source.dialect == "gemini" else cleaned[-1]
    return name, qualified


def clean_name(name: str) -> str:
    """Return a name that can be typed and shown: without spaces, slashes and control characters."""
    # A file name may contain bytes that are not UTF-8.
    readable = os.fsencode(name).decode(errors="replace")
    kept = "".join(each if each.isprintable() else " " for each in readable)
    return re.sub(r"[\s/]+", "-", kept.strip())[:MAX_NAME] or "command"


def _fail(command: CommandFile, line: int, reason: str) -> CommandFile:
    problems = (*command.problems, Problem(line, reason, True))
    return attrs.evolve(command, problems=problems, error=reason)


# --- Markdown -------------------------------------------------------------------------------------


def _load_document(command: CommandFile, document: Document, written: str) -> CommandFile:
    fields = document.fields
    problems = list(document.problems)
    summary = text(document, "description") or _find_first_line(document.body)
    command = attrs.evolve(
        command,
        summary=_shorten(summary),
        hint=_read_hint(document, written),
        model=text(document, "model"),
        agent=_read_agent(document),
        tools=_read_tools(document),
        is_subtask=bool(flag(document, "subtask", False)) or text(document, "context") == "fork",
        problems=tuple(problems),
    )
    if "hooks" in fields:
        message = "A command's hooks are not run."
        command = _add_problem(command, document.problem("hooks", message))
    return _split_text(command, document.body.strip("\n"), _find_body_line(document))


def _find_body_line(document: Document) -> int:
    text = document.body.lstrip("\n")
    return document.line + (len(document.body) - len(text) if text else 0)


def _split_text(command: CommandFile, body: str, line: int) -> CommandFile:
    if not body.strip():
        return _fail(command, line, "The command has no text.")
    try:
        pieces = split_template(body, command.dialect, line)
    except TemplateError as error:
        return _fail(command, error.line, str(error))
    command = attrs.evolve(command, pieces=pieces)
    variable = _VARIABLES.get(command.dialect)
    if variable is not None:
        for problem in _find_variables(pieces, variable, body, line):
            command = _add_problem(command, problem)
    return command


def _find_variables(
    pieces: tuple[Piece, ...], variable: re.Pattern[str], body: str, first_line: int
) -> Iterator[Problem]:
    """Yield a problem for each variable in a text that hilum has no value for."""
    texts: list[str] = []
    for piece in pieces:
        parts = piece.parts if isinstance(piece, ShellInsert | FileReference) else (piece,)
        texts += [part for part in parts if isinstance(part, str)]
    found = [name for each in texts for name in variable.findall(each)]
    for name in dict.fromkeys(found):
        line = first_line + body.count("\n", 0, body.index(name))
        yield Problem(line, f"hilum has no value for {name}; it is sent as written.")


def _add_problem(command: CommandFile, problem: Problem) -> CommandFile:
    return attrs.evolve(command, problems=(*command.problems, problem))


def _read_hint(document: Document, written: str) -> str:
    """Return the description of the arguments as written: ``[a] [b]`` is not YAML."""
    for key in _HINT_KEYS:
        if key not in document.fields:
            continue
        line = document.lines.get(key, 0)
        rows = written.splitlines()
        if 0 < line <= len(rows):
            value = rows[line - 1].partition(":")[2].strip()
            return _shorten(value.strip("\"'"))
        return _shorten(text(document, key))
    return ""


def _read_agent(document: Document) -> str:
    return next((text(document, key) for key in _AGENT_KEYS if text(document, key)), "")


def _read_tools(document: Document) -> tuple[str, ...] | None:
    key = next((key for key in _TOOL_KEYS if document.fields.get(key) not in (None, "")), "")
    if not key:
        return None
    found: list[str] = []
    for entry in names(document, key) or ():
        found += split_tools(entry)
    return tuple(found)


def _find_first_line(body: str) -> str:
    lines = (line.strip(" #*>\t") for line in body.split("\n"))
    return next((line for line in lines if line), "")


def _shorten(line: str) -> str:
    one_line = " ".join(line.split())
    return one_line if len(one_line) <= MAX_SUMMARY else f"{one_line[: MAX_SUMMARY - 1]}…"


# --- TOML and JSON --------------------------------------------------------------------------------


def _load_toml(command: CommandFile, data: bytes) -> CommandFile:
    import tomllib  # loaded at first use

    content = data.decode(errors="replace").lstrip("\ufeff")
    try:
        table = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_LINE.search(str(error))
        reason = _TOML_LINE.sub("", str(error))
        line = int(place[1]) if place else 1 + content.count("\n")
        return _fail(command, line, f"The file is not TOML: {reason}.")
    except RecursionError:
        return _fail(command, 1, "The file is nested too deeply.")
    return _load_table(command, table, "prompt", lambda name: _find_toml_line(content, name))


def _load_entry(
    keys: list[str], entry: object, source: CommandSource, loaded: LoadedFile
) -> CommandFile:
    """Read a command from an entry of a configuration file.

    Args:
        keys: The keys that lead to the entry; the last one is the command's name.
        entry: The value.
        source: The file.
        loaded: The content of the file, for the line numbers of keys.
    """
    cleaned = clean_name(keys[-1])
    command = CommandFile(cleaned, source.path, source, cleaned)
    if not isinstance(entry, dict):
        reason = f"The command {keys[-1]!r} must be a mapping."
        return _fail(command, loaded.find_line(keys), reason)
    return _load_table(
        command, entry, "template", lambda name: max(loaded.find_line([*keys, name]), 1)
    )


def _load_table(
    command: CommandFile, table: Mapping[str, object], key: str, find_line: Callable[[str], int]
) -> CommandFile:
    """Read a command from a table.

    Args:
        command: The command with its name.
        table: The table.
        key: The key of the text.
        find_line: A function that returns the line number of a key in the table.
    """
    for name in _wrong_keys(table, (key, "description", "agent", "model")):
        command = _add_problem(command, Problem(find_line(name), f"`{name}` must be a text."))
    body = table.get(key)
    if not isinstance(body, str):
        return _fail(command, find_line(key), f"The command has no text: `{key}` is missing.")
    includes = _INCLUDE.findall(body)
    if includes and command.dialect == "opencode":
        try:
            body = _INCLUDE.sub(lambda found: _read_included(found[1], command.source), body)
        except OSError as error:
            return _fail(command, find_line(key), str(error))
        folder = command.path.parent
        paths = tuple(folder / os.path.expanduser(name.strip()) for name in includes)
        command = attrs.evolve(command, includes=paths)
    description = _text_of(table, "description")
    command = attrs.evolve(
        command,
        summary=_shorten(description or _find_first_line(body)),
        agent=_text_of(table, "agent"),
        model=_text_of(table, "model"),
        is_subtask=table.get("subtask") is True,
    )
    return _split_text(command, body.strip("\n"), find_line(key) + _count_leading_lines(body, key))


def _read_included(name: str, source: CommandSource) -> str:
    """Return the text of a file that a configuration file of opencode includes.

    Raises:
        OSError: It cannot be read; the message is one sentence.
    """
    path = source.path.parent / os.path.expanduser(name.strip())
    if source.inside is not None:
        inside = os.path.join(os.path.realpath(source.inside), "")
        if not os.path.realpath(path).startswith(inside):
            raise OSError(f"{name} is outside the project, so it is not read.")
    try:
        return read_bytes(path).decode(errors="replace").strip()
    except OSError as error:
        raise OSError(f"{name} cannot be read: {error.strerror or error}.") from None


def _count_leading_lines(body: str, key: str) -> int:
    """Return how many lines below its key a text begins.

    TOML drops the newline after three quotes, so the text of ``prompt`` usually begins one line
    below.
    """
    leading = len(body) - len(body.lstrip("\n"))
    return leading + (1 if key == "prompt" and "\n" in body else 0)


def _wrong_keys(table: Mapping[str, object], keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        if key in table and not isinstance(table[key], str):
            yield key


def _text_of(table: Mapping[str, object], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def _find_toml_line(content: str, key: str) -> int:
    """Return the line of a top-level key in a TOML file, counted from 1."""
    match = re.search(rf'(?m)^\s*"?{re.escape(key)}"?\s*=', content)
    if match is None:
        return 1
    return 1 + content.count("\n", 0, match.start() + len(match[0]) - len(match[0].lstrip()))
