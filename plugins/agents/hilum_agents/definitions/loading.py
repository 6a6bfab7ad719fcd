"""Reading an agent's file, in hilum's dialect or that of Claude Code, Gemini CLI, opencode,
Copilot, Cursor or Codex.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from hilum_frontmatter import Document, Problem, flag, number, read, text

from hilum_agents.definitions.definition import TURNS, Definition, Dialect, Scope
from hilum_agents.definitions.fitting import TOOL_KEYS, fit_tools
from hilum_agents.definitions.toml import read_toml
from hilum_agents.forms import BadForm, Form, read_form

MOST_BYTES = 2_000_000
MOST_PROMPT = 200_000
"""Characters of a prompt; what is more is left out, and told."""
NAME = r"[a-z][a-z0-9_-]*"
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 2_000
USED = frozenset(
    "kind name title description model scope version tools disallowedTools disallowed-tools"
    " disallowed_tools excludeTools mcpServers mcp-servers mcp_servers mcp limits permissions"
    " permission permissionMode readonly readOnly read_only read-only skills answer prompt maxTurns"
    " max_turns maxSteps steps timeout_mins disable hooks isolation handoffs sandbox_mode".split()
) | {*TOOL_KEYS}
"""The fields that mean something here, or of which it is told that they are not obeyed."""
_RESTRICTION = r"(?:restricted|forbidden|denied|blocked|allowed|excluded)[_-](?:tools|paths|files|commands|file_types)"
ANSWERS = ("explore", "review", "test", "doc", "refactor")

_PLACES: tuple[tuple[str, Dialect], ...] = (
    (".hilum", "hilum"),
    (".claude", "claude"),
    (".gemini", "gemini"),
    (".opencode", "opencode"),
    ("opencode", "opencode"),
    (".github", "copilot"),
    (".copilot", "copilot"),
    (".codex", "codex"),
    (".cursor", "cursor"),
)


def load_definition(
    path: str | os.PathLike[str], *, scope: Scope = "user", dialect: Dialect | None = None
) -> Definition:
    """Read an agent's file. Blocks.

    Args:
        path: The file.
        scope: Where it belongs.
        dialect: Whose format it has; told from its place and its keys if not given.

    Returns:
        The definition. What is wrong stands in ``problems``; where ``error`` is not empty, it does
        not load. This never raises for bad input.
    """
    file = Path(path)
    fallback = _stem(file)
    try:
        data = _read(file)
    except OSError as error:
        why = f"{file} cannot be read: {error.strerror or error}."
        return Definition(fallback, file, scope=scope, error=why, problems=(Problem(1, why, True),))
    document = read_toml(data) if file.suffix == ".toml" else read(data)
    return _of(file, fallback, document, scope, dialect or dialect_of(file, document.fields))


def dialect_of(file: Path, fields: Mapping[str, object]) -> Dialect:
    """Tell whose format a file has: its keys say it for sure, then its place, then keys that are
    likely.
    """
    tools = fields.get("tools")
    if (
        fields.get("kind") == "agent"
        or "limits" in fields
        or (isinstance(tools, dict) and {*tools} <= {"allow", "deny"} and tools)
    ):
        return "hilum"
    if file.suffix == ".toml":
        return "codex"
    if file.name.endswith((".agent.md", ".chatmode.md")):
        return "copilot"
    parts = file.absolute().parts
    for part in reversed(parts[:-1]):
        for name, dialect in _PLACES:
            if part == name:
                return dialect
    if (
        "permission" in fields
        or isinstance(tools, dict)
        or fields.get("mode") in ("subagent", "primary", "all")
    ):
        return "opencode"
    if (
        "max_turns" in fields
        or "timeout_mins" in fields
        or fields.get("kind") in ("local", "remote")
    ):
        return "gemini"
    if {"user-invocable", "handoffs", "target", "mcp-servers"} & fields.keys():
        return "copilot"
    if fields.keys() & {"tools", "model", "color", "disallowedTools"}:
        return "claude"
    return "hilum"


def _read(file: Path) -> bytes:
    descriptor = os.open(
        file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    )
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no plain file")
        if status.st_size > MOST_BYTES:
            raise OSError(0, f"it has {status.st_size:,} bytes, more than {MOST_BYTES:,}")
        return stream.read(MOST_BYTES + 1)


def _stem(file: Path) -> str:
    name = file.name
    for ending in (".agent.md", ".chatmode.md", ".md", ".markdown", ".toml"):
        if name.casefold().endswith(ending):
            name = name[: -len(ending)]
            break
    return " ".join(os.fsencode(name).decode(errors="replace").split()) or "agent"


class _Reading:
    """A file on its way to a definition: collects what is wrong."""

    def __init__(self, document: Document, dialect: Dialect) -> None:
        self.document = document
        self.dialect = dialect
        self.problems: list[Problem] = list(document.problems)

    def tell(self, key: str, message: str) -> None:
        self.problems.append(self.document.problem(key, message))

    def first(self, *keys: str) -> str:
        """The first of some keys that is there."""
        return next((key for key in keys if key in self.document.fields), keys[0])

    def limit(
        self, default: float | None, table: Mapping[str, object], *keys: str, factor: float = 1
    ) -> float | None:
        """A limit that must be above zero, from ``limits`` or from a key of another program."""
        inner = next((key for key in keys if key in table), "")
        key = "limits" if inner else self.first(*keys)
        source = Document({key: table[inner]}, "", 1) if inner else self.document
        if source.fields.get(key) is None:
            return default
        value = number(source, key)
        if value is None or value <= 0:
            self.tell(
                key,
                f"{inner or key} must be a number above 0, not {text(source, key)!r}; it is"
                " ignored.",
            )
            return default
        return value * factor


def _of(
    file: Path, fallback: str, document: Document, scope: Scope, dialect: Dialect
) -> Definition:
    reading = _Reading(document, dialect)
    error = _fatal(document)
    name, title = _name(reading, fallback)
    description = _description(reading)
    prompt = _prompt(reading)
    fitted = fit_tools(reading.document, dialect, reading.tell)
    turns, timeout, tokens = _limits(reading)
    _ignored(reading)
    answer, form = _answer(reading)
    servers, own_servers = _servers(reading)
    if error and not any(each.message == error for each in reading.problems):
        reading.problems.append(Problem(1, error, True))
    return Definition(
        name,
        file,
        title,
        description,
        prompt,
        fitted.model,
        fitted.written_model,
        scope,
        text(document, "version"),
        dialect,
        fitted.tools,
        fitted.agents,
        servers,
        own_servers,
        fitted.skills,
        fitted.permissions,
        answer,
        form,
        turns,
        timeout,
        tokens,
        document.fields,
        tuple(sorted(reading.problems, key=lambda each: each.line)),
        error,
    )


def _answer(reading: _Reading) -> tuple[str, Form | None]:
    """The form of its answers: a name, or one of its own."""
    value = reading.document.fields.get("answer")
    if isinstance(value, dict):
        try:
            return "", read_form(value)
        except BadForm as error:
            reading.tell(
                "answer", f"The form of answers cannot be used: {error}. Answers are not checked."
            )
            return "", None
    name = text(reading.document, "answer")
    if name and name not in ANSWERS:
        known = ", ".join(ANSWERS)
        reading.tell(
            "answer",
            f"There is no form of answers {name!r}; known are {known}, or describe one in a"
            " mapping.",
        )
        return "", None
    return name, None


def _fatal(document: Document) -> str:
    fields = document.fields
    if not document.present and (
        broken := next((each.message for each in document.problems if each.fatal), "")
    ):
        return broken
    if not document.present:
        return "It has no front matter, so it says neither what it is for nor what it may do."
    if not fields:
        return "Its front matter has no fields; at least a description must stand there."
    if (
        not document.body.strip()
        and not text(document, "prompt")
        and "developer_instructions" in fields
    ):
        return "Its developer_instructions are empty."
    if not document.body.strip() and not text(document, "prompt"):
        return "It has no prompt below its front matter."
    if fields.get("kind") == "remote":
        return "It is a remote agent, which hilum cannot run."
    if flag(document, "disable", False):
        return "It is switched off (disable: true)."
    return ""


def _name(reading: _Reading, fallback: str) -> tuple[str, str]:
    """The name it is called by, and what it is shown as."""
    written = " ".join(text(reading.document, "name").split())
    display = reading.dialect == "copilot" and bool(written)
    chosen = fallback if display or not written else written
    if (
        not written
        and reading.dialect not in ("opencode", "copilot", "codex", "cursor")
        and reading.document.present
    ):
        reading.tell("name", f"The name is missing; {fallback!r} is taken.")
    name = chosen.casefold()
    if not re.fullmatch(NAME, name):
        name = re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9_-]+", "-", name)).strip("-_")
        name = name if re.fullmatch(NAME, name) else f"agent-{name}".rstrip("-")
        reading.tell(
            "name",
            f"{chosen!r} cannot be called by its name (a-z, 0-9, _ and -); {name!r} is taken.",
        )
    if name == "main":
        name = "agent-main"
        reading.tell("name", f"The session's own agent is called main; {name!r} is taken.")
    if len(name) > LONGEST_NAME:
        name = name[:LONGEST_NAME].rstrip("-_")
        reading.tell(
            "name", f"The name has more than {LONGEST_NAME} characters; {name!r} is taken."
        )
    title = " ".join(text(reading.document, "title").split()) or (
        written if written.casefold() != name else ""
    )
    return name, title or name.replace("_", " ").replace("-", " ").capitalize()


def _description(reading: _Reading) -> str:
    description = " ".join(text(reading.document, "description").split())
    if not description and reading.document.present:
        lines = (line.strip(" #*>") for line in reading.document.body.split("\n") if line.strip())
        description = next((line for line in lines if line), "")[:300]
        reading.tell(
            "description", "The description is missing; nobody can tell when to use this agent."
        )
    if len(description) > LONGEST_DESCRIPTION:
        reading.tell(
            "description", f"The description is cut at {LONGEST_DESCRIPTION:,} characters."
        )
        description = description[:LONGEST_DESCRIPTION]
    return description


def _prompt(reading: _Reading) -> str:
    document = reading.document
    prompt = document.body.strip("\n")
    if not prompt.strip() and (given := text(document, "prompt")):
        prompt = given
        if isinstance(document.fields.get("prompt"), dict) or given.startswith("{file:"):
            reading.tell(
                "prompt", "A prompt in another file is not read; put it below the front matter."
            )
    if len(prompt) > MOST_PROMPT:
        line = document.line + prompt[:MOST_PROMPT].count("\n")
        message = (
            f"The prompt has {len(prompt):,} characters; what is beyond {MOST_PROMPT:,} is left"
            " out."
        )
        reading.problems.append(Problem(line, message, True))
        prompt = prompt[:MOST_PROMPT]
    return prompt


def _limits(reading: _Reading) -> tuple[int, float | None, int | None]:
    table = reading.document.fields.get("limits")
    if table is not None and not isinstance(table, dict):
        reading.tell(
            "limits", "limits must have turns, timeout and token_limit; none of them holds."
        )
    known = table if isinstance(table, dict) else {}
    odd = [key for key in known if key not in ("turns", "timeout", "token_limit")]
    if odd:
        reading.tell(
            "limits",
            f"limits has no {', '.join(map(repr, odd))}; it has turns, timeout and token_limit.",
        )
    gemini = reading.dialect == "gemini"
    turns = reading.limit(
        30 if gemini else TURNS, known, "turns", "maxTurns", "max_turns", "maxSteps", "steps"
    )
    if "timeout_mins" in reading.document.fields:
        timeout = reading.limit(600.0, known, "timeout_mins", factor=60)
    else:
        timeout = reading.limit(600.0 if gemini else None, known, "timeout")
    tokens = reading.limit(None, known, "token_limit")
    return max(1, int(turns or TURNS)), timeout, None if tokens is None else max(1, int(tokens))


def _servers(reading: _Reading) -> tuple[tuple[str, ...], dict[str, object]]:
    """Names of MCP servers, and what the file itself describes of them, which is kept and not
    started.
    """
    fields = reading.document.fields
    key = reading.first("mcpServers", "mcp-servers", "mcp_servers", "mcp")
    value = fields.get(key)
    if key == "mcp" and isinstance(value, dict) and "servers" in value:
        value = value["servers"]
    listed = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    inline = {
        str(name): server
        for each in listed
        if isinstance(each, dict)
        for name, server in each.items()
    }
    if isinstance(value, dict):
        inline |= {str(name): server for name, server in value.items()}
    if inline:
        reading.tell(
            key, f"Servers that the file itself describes are not started: {', '.join(inline)}."
        )
    given = [part.strip() for each in listed if isinstance(each, str) for part in each.split(",")]
    return tuple(dict.fromkeys([*filter(None, given), *inline])), inline


def _ignored(reading: _Reading) -> None:
    """Tell of what is not obeyed."""
    fields = reading.document.fields
    mode = text(reading.document, "permissionMode")
    if mode and mode not in ("default", "plan"):
        reading.tell(
            "permissionMode",
            f"An agent cannot widen its rights; permissionMode {mode!r} is ignored.",
        )
    for key, message in (
        ("hooks", "Hooks of an agent are not run."),
        ("isolation", "The agent works in the workspace itself; isolation is ignored."),
        ("handoffs", "Handoffs are not offered; they are ignored."),
    ):
        if fields.get(key):
            reading.tell(key, message)
    held = list(_restrictions(fields))
    if held:
        reading.tell(
            held[0].partition(".")[0],
            f"{', '.join(held)}: nothing is held to this here; tools and permissions are.",
        )
    kind = fields.get("kind")
    if kind not in (None, "agent", "local", "remote"):
        reading.tell(
            "kind", f"{kind!r} is no kind of file that is known here; it is read as an agent."
        )


def _restrictions(fields: Mapping[str, object]) -> Iterator[str]:
    """Keys that look as if they held something back, and are of no program whose files are read
    here.
    """
    for key, value in fields.items():
        if key in ("tools", "permission", "permissions", "answer", *TOOL_KEYS):
            continue
        for inner in (
            key,
            *(f"{key}.{each}" for each in (value if isinstance(value, dict) else ())),
        ):
            if re.fullmatch(_RESTRICTION, inner.rpartition(".")[2]):
                yield inner
