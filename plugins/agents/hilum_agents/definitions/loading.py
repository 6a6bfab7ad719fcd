"""Loads an agent's file, which may be written in the dialect of hilum or another program."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from hilum.errors import similar_names
from hilum.frontmatter import Document, Problem, flag, read, text

from hilum_agents.definitions.definition import DEFAULT_TURNS, Definition, Dialect, Scope
from hilum_agents.definitions.dialects import detect_dialect
from hilum_agents.definitions.fitting import DENY_KEYS, READ_ONLY_KEYS, TOOL_KEYS, fit_tools
from hilum_agents.definitions.runner import DEFAULT_TURNS as DEFAULT_RUNNER_TURNS
from hilum_agents.definitions.schema import FIELDS, AgentFields, WrongField, structure_fields
from hilum_agents.definitions.toml import read_toml

MAX_BYTES = 2_000_000
# Maximum number of characters in a prompt; any excess is dropped and reported.
MAX_PROMPT = 200_000
NAME = r"[a-z][a-z0-9_-]*"
MAX_NAME = 64
MAX_DESCRIPTION = 2_000
MAX_DEFAULT_DESCRIPTION = 300
TURN_KEYS = ("turns", "maxTurns", "max_turns", "maxSteps", "steps")
_SERVER_KEYS = ("mcpServers", "mcp-servers", "mcp_servers", "mcp")
# Gemini CLI's default limits: the number of model calls, and the time in seconds.
_GEMINI_TURNS = 30
_GEMINI_TIMEOUT = 600.0
_ENDINGS = (".agent.md", ".chatmode.md", ".md", ".markdown", ".toml")
# Dialects that name the agent after its file.
_NAMELESS_DIALECTS = ("opencode", "copilot", "codex", "cursor")
_IGNORED = {
    "hooks": "An agent's hooks are not run.",
    "isolation": "The agent works in the workspace itself; isolation is ignored.",
    "handoffs": "Handoffs are not supported; they are ignored.",
}
# The fields that have an effect, or whose lack of effect is reported.
USED = frozenset(
    [
        *FIELDS,
        *TOOL_KEYS,
        *DENY_KEYS,
        *READ_ONLY_KEYS,
        *TURN_KEYS,
        *_SERVER_KEYS,
        *_IGNORED,
        "disable",
        "model",
        "permission",
        "permissionMode",
        "prompt",
        "sandbox_mode",
        "scope",
        "skills",
        "timeout_mins",
    ]
) - {"turns"}
# All keys that are read from the top level of a file.
_READ = USED | {"turns", "timeout", "token_limit"}
# Keys of other programs that are similar to a known key but are not misspelled.
_KEYS_OF_OTHERS = frozenset({"mode", "modes", "models"})
# Minimum similarity to a known key at which an unknown key is reported as a misspelling.
MIN_SIMILARITY = 0.8
# Keys that actually restrict an agent or are checked elsewhere.
_RESTRICTING = frozenset({"tools", "permission", "permissions", "limits", "answer", *TOOL_KEYS})
# Keys that look like restrictions, although no supported program uses them.
_RESTRICTION = re.compile(
    r"(?:restricted|forbidden|denied|blocked|allowed|excluded)"
    r"[_-](?:tools|paths|files|commands|file_types)"
)


def load_definition(
    path: str | os.PathLike[str],
    *,
    scope: Scope = "user",
    dialect: Dialect | None = None,
) -> Definition:
    """Load an agent's file. Blocks.

    Args:
        path: The file.
        scope: Scope of the agent.
        dialect: The dialect of the file, which is detected by default.

    Returns:
        The definition, with all problems found in the file in ``problems``. If ``error`` is set,
        the agent cannot be used. Invalid input never raises an exception.
    """
    file = Path(path)
    try:
        data = _read_bytes(file)
    except OSError as error:
        reason = f"{file} cannot be read: {error.strerror or error}."
        problem = Problem(1, reason, True)
        return Definition(_stem(file), file, scope=scope, error=reason, problems=(problem,))
    document = read_toml(data) if file.suffix == ".toml" else read(data)
    if dialect is None:
        dialect = detect_dialect(file, document.fields)
    return _Loader(file, document, dialect).load(scope)


def _read_bytes(file: Path) -> bytes:
    # Without O_NONBLOCK, opening a named pipe in a cloned project could block forever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(file, flags)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        if status.st_size > MAX_BYTES:
            raise OSError(0, f"it has {status.st_size:,} bytes, more than {MAX_BYTES:,}")
        return stream.read(MAX_BYTES + 1)


def _stem(file: Path) -> str:
    """Return the name of a file without its suffix."""
    name = file.name
    ending = next((each for each in _ENDINGS if name.casefold().endswith(each)), "")
    stem = name[: len(name) - len(ending)]
    # A file name may contain bytes that are not UTF-8.
    readable = os.fsencode(stem).decode(errors="replace")
    return " ".join(readable.split()) or "agent"


class _Loader:
    """Builds a definition from a file and collects the file's problems.

    Args:
        file: The file.
        document: The parsed file.
        dialect: Its dialect.
    """

    def __init__(self, file: Path, document: Document, dialect: Dialect) -> None:
        self._file = file
        self._document = document
        self._dialect = dialect
        self._problems: list[Problem] = list(document.problems)

    def load(self, scope: Scope) -> Definition:
        """Return the definition."""
        fields = self._structure()
        name = self._name(fields)
        fitted = fit_tools(self._document, self._dialect, fields.permissions, self._report)
        self._report_ignored()
        servers, own_servers = self._servers()
        error = _fatal_error(self._document) or self._runner_error(fields)
        if error and not any(each.message == error for each in self._problems):
            self._problems.append(Problem(1, error, True))
        return Definition(
            name=name,
            path=self._file,
            title=_title(fields, name),
            description=self._description(fields),
            prompt=self._prompt(),
            model=fitted.model.model,
            written_model=fitted.model.written,
            scope=scope,
            version=fields.version,
            kind=self._dialect,
            tools=fitted.tools,
            agents=fitted.agents,
            servers=servers,
            own_servers=own_servers,
            skills=fitted.skills,
            permissions=fitted.permissions,
            answer=fields.answer.name,
            form=fields.answer.form,
            turns=fields.limits.turns or self._default_turns(fields),
            timeout=self._timeout(fields),
            token_limit=fields.limits.token_limit,
            runner=fields.runner,
            fields=self._document.fields,
            problems=tuple(sorted(self._problems, key=lambda each: each.line)),
            error=error,
        )

    def _report(self, key: str, message: str) -> None:
        self._problems.append(self._document.problem(key, message))

    def _first(self, keys: tuple[str, ...]) -> str:
        """Return the first of the given keys that the file contains."""
        return next((key for key in keys if key in self._document.fields), keys[0])

    # --- fields -----------------------------------------------------------------------------------

    def _structure(self) -> AgentFields:
        """Return the common fields, and report those that are unusable."""
        written = self._document.fields
        values = {key: written[key] for key in FIELDS if key in written}
        # Limits are in the table ``limits`` or, in other programs' files, in top-level keys.
        values.pop("limits", None)
        limits, keys = self._limits()
        if limits is not None:
            values["limits"] = limits
        fields, wrong = structure_fields(values)
        for each in wrong:
            self._report_wrong(each, keys)
        return fields

    def _limits(self) -> tuple[object, dict[str, str]]:
        """Return the table of limits, and the keys of limits that are outside the table.

        Other programs define limits at the top level, under different names.
        """
        written = self._document.fields
        table = written.get("limits")
        if table is not None and not isinstance(table, dict):
            return table, {}
        limits: dict[str, object] = dict(table or {})
        keys = {
            "turns": self._first(TURN_KEYS),
            "timeout": "timeout",
            "token_limit": "token_limit",
        }
        if "timeout_mins" in written:
            keys["timeout"] = "timeout_mins"
        for name, key in list(keys.items()):
            if name in limits or written.get(key) is None:
                del keys[name]
            else:
                limits[name] = written[key]
        return limits or None, keys

    def _report_wrong(self, wrong: WrongField, keys: Mapping[str, str]) -> None:
        """Report a field under the key that the file uses for the field."""
        top, *rest = wrong.path
        shown = ".".join(wrong.path)
        if top == "limits" and rest and rest[0] in keys:
            top = shown = keys[rest[0]]
        self._report(top, f"{shown} {wrong.message}; it is ignored.")

    def _runner_error(self, fields: AgentFields) -> str:
        """Return why the runner of a file cannot be used; empty if it can, or if there is none.

        Without its runner, the agent would be another one, so such a file is not loaded.
        """
        if self._document.fields.get("runner") is None:
            return ""
        if fields.runner is None:
            return "The key runner is not valid, so the agent cannot run."
        if self._dialect != "hilum":
            return "Only hilum's own agent files may contain the key runner."
        return ""

    def _default_turns(self, fields: AgentFields) -> int:
        if fields.runner is not None:
            return DEFAULT_RUNNER_TURNS
        return _GEMINI_TURNS if self._dialect == "gemini" else DEFAULT_TURNS

    def _timeout(self, fields: AgentFields) -> float | None:
        timeout = fields.limits.timeout
        in_minutes = "timeout_mins" in self._document.fields
        if timeout is None:
            # An invalid `timeout_mins` must not remove the time limit.
            return _GEMINI_TIMEOUT if in_minutes or self._dialect == "gemini" else None
        table = self._document.fields.get("limits")
        if in_minutes and not (isinstance(table, dict) and "timeout" in table):
            return timeout * 60
        return timeout

    def _name(self, fields: AgentFields) -> str:
        """Return the agent's name, derived from the file name if the file has no usable name."""
        fallback = _stem(self._file)
        chosen = fields.name or fallback
        if self._dialect == "copilot":
            chosen = fallback  # in this dialect, the field `name` contains a title
        is_missing = not fields.name and self._dialect not in _NAMELESS_DIALECTS
        if is_missing and self._document.present:
            self._report("name", f"The name is missing; {fallback!r} is used.")
        name = chosen.casefold()
        if not re.fullmatch(NAME, name):
            name = _make_name(name) or _make_name(fallback.casefold()) or _number_name(chosen)
            self._report(
                "name",
                f"{chosen!r} is not a valid agent name (a-z, 0-9, _ and -); {name!r} is used.",
            )
        # The main agent has the permissions of the session; no file may replace it.
        if name == "main":
            name = "agent-main"
            self._report("name", f"The session's own agent is called main; {name!r} is used.")
        if len(name) > MAX_NAME:
            name = name[:MAX_NAME].rstrip("-_")
            self._report(
                "name", f"The name is longer than {MAX_NAME} characters; {name!r} is used."
            )
        return name

    def _description(self, fields: AgentFields) -> str:
        description: str = fields.description
        if not description and self._document.present:
            lines = [line.strip(" #*>") for line in self._document.body.split("\n")]
            first = next((line for line in lines if line), "")
            description = first[:MAX_DEFAULT_DESCRIPTION]
            self._report(
                "description",
                "The description is missing; models and users need it to choose an agent.",
            )
        if len(description) > MAX_DESCRIPTION:
            self._report(
                "description",
                f"The description is longer than {MAX_DESCRIPTION:,} characters; the rest is"
                " ignored.",
            )
        return description[:MAX_DESCRIPTION]

    def _prompt(self) -> str:
        document = self._document
        prompt = document.body.strip("\n")
        written = text(document, "prompt")
        if not prompt.strip() and written:
            prompt = written
            # A prompt that refers to another file is not read, because it could reveal that file to
            # the model.
            if isinstance(document.fields.get("prompt"), dict) or written.startswith("{file:"):
                self._report(
                    "prompt",
                    "Prompts in other files are not read; write the prompt below the front matter.",
                )
        if len(prompt) > MAX_PROMPT:
            message = (
                f"The prompt has {len(prompt):,} characters; only the first {MAX_PROMPT:,} are"
                " used."
            )
            prompt = prompt[:MAX_PROMPT]
            line = document.line + prompt.count("\n")
            self._problems.append(Problem(line, message, True))
        return prompt

    def _servers(self) -> tuple[tuple[str, ...], dict[str, object]]:
        """Return the names of MCP servers, and the servers that the file itself defines."""
        key = self._first(_SERVER_KEYS)
        value = self._document.fields.get(key)
        if key == "mcp" and isinstance(value, dict) and "servers" in value:
            value = value["servers"]
        listed = value if isinstance(value, list) else [value]
        names: list[str] = []
        described: dict[str, object] = {}
        for each in listed:
            if isinstance(each, str):
                names += filter(None, map(str.strip, each.split(",")))
            elif isinstance(each, dict):
                described |= {str(name): server for name, server in each.items()}
        if described:
            named = ", ".join(described)
            self._report(key, f"MCP servers that are defined in the file are not started: {named}.")
        return tuple(dict.fromkeys([*names, *described])), described

    def _report_ignored(self) -> None:
        """Report fields that have no effect."""
        fields = self._document.fields
        mode = text(self._document, "permissionMode")
        if mode and mode not in ("default", "plan"):
            self._report(
                "permissionMode",
                f"A file cannot extend an agent's permissions; permissionMode {mode!r} is ignored.",
            )
        for key, message in _IGNORED.items():
            if fields.get(key):
                self._report(key, message)
        for key in fields:
            similar = _meant_key(key)
            if similar:
                self._report(
                    key, f"{key!r} is not a known key (did you mean {similar}?); it is ignored."
                )
        found = list(_restriction_keys(fields))
        if found:
            top = found[0].partition(".")[0]
            self._report(
                top, f"{', '.join(found)} has no effect; restrict the agent with permissions."
            )


def _meant_key(key: str) -> str:
    """Return the known key of which an unknown key is a misspelling; empty if there is none.

    Other programs have keys that hilum does not know, so only very similar keys are suggested.
    """
    if key in _READ or key in _KEYS_OF_OTHERS or _RESTRICTION.fullmatch(key):
        return ""
    similar = similar_names(key, sorted(_READ), 1, cutoff=MIN_SIMILARITY)
    return similar[0] if similar else ""


def _make_name(text: str) -> str:
    """Return a text as an agent's name; empty if it has no ASCII letter."""
    if not re.search(r"[a-z]", text):
        return ""
    name = re.sub(r"[^a-z0-9_-]+", "-", text)
    name = re.sub(r"-{2,}", "-", name).strip("-_")
    return name if re.fullmatch(NAME, name) else f"agent-{name}".rstrip("-")


def _number_name(text: str) -> str:
    """Return a name for a text that has no ASCII letter, such as Chinese; it differs by text."""
    return f"agent-{zlib.crc32(text.encode(errors='replace')):08x}"


def _title(fields: AgentFields, name: str) -> str:
    if fields.title:
        return fields.title
    if fields.name and fields.name.casefold() != name:
        return fields.name
    return name.replace("_", " ").replace("-", " ").capitalize()


def _fatal_error(document: Document) -> str:
    """Return the reason why a file cannot be loaded; empty if it can."""
    fields = document.fields
    if not document.present:
        fatal = [problem.message for problem in document.problems if problem.fatal]
        missing = "The file has no front matter with a description of the agent."
        return fatal[0] if fatal else missing
    if not fields:
        return "The front matter has no fields; an agent needs at least a description."
    if (
        not document.body.strip()
        and not text(document, "prompt")
        and document.fields.get("runner") is None
    ):
        if "developer_instructions" in fields:
            return "The field developer_instructions is empty."
        return "The file has no prompt below its front matter."
    if fields.get("kind") == "remote":
        return "hilum cannot run a remote agent (kind: remote)."
    if flag(document, "disable", False):
        return "The agent is switched off (disable: true)."
    return ""


def _restriction_keys(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield keys that look like restrictions but have no effect."""
    for key, value in fields.items():
        if key in _RESTRICTING:
            continue
        inner = value if isinstance(value, dict) else {}
        for name in (key, *(f"{key}.{each}" for each in inner)):
            if _RESTRICTION.fullmatch(name.rpartition(".")[2]):
                yield name
