"""Translates tool names in agent files into hilum's tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

from hilum_guard import server_tools

_EDIT = ("edit_file", "multi_edit")
_CHANGE = ("write_file", *_EDIT, "delete_file")
_SEARCH = ("search_files", "glob_search", "list_directory")
_SYMBOLS = ("find_definition", "find_references", "list_symbols")
# Tools that find places by name or meaning, and show their lines.
_LOOKUP = ("semantic_search", *_SYMBOLS)
_SHELL = ("run_terminal_cmd", "list_services", "read_service", "write_service", "stop_service")
_WEB = ("web_fetch", "web_search")
_CATEGORIES: dict[str, tuple[str, ...]] = {
    "read": (
        "read_file",
        *_SEARCH,
        "read_lints",
        *_SYMBOLS,
        "use_skill",
        "recall_result",
        "list_services",
        "read_service",
        "todo_write",
        "ask_question",
        "get_agent_result",
        "find_tools",
        "remember",
    ),
    "write": (*_CHANGE, "rename_symbol", "forget"),
    "execute": (
        "run_terminal_cmd",
        "write_service",
        "stop_service",
        "task",
        "handover",
        "call_tool",
    ),
    "network": _WEB,
}

# The standard tools and their permission categories, for use outside a session.
KNOWN: dict[str, str] = {}
for _category, _names in _CATEGORIES.items():
    KNOWN.update(dict.fromkeys(_names, _category))

# The permission categories; a filter may contain a category instead of a tool.
RISKS = frozenset(_CATEGORIES)

# Normalized tool names: lowercase, without `_` and `-`. Each row lists the names of one tool in
# Claude Code, Gemini CLI, opencode and Copilot (old and new).
_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "read readfile readmanyfiles notebookread view readnotebookcelloutput getnotebooksummary",
        ("read_file",),
    ),
    ("ls list listdir listdirectory", ("list_directory",)),
    ("write writefile createfile createdirectory newfile", ("write_file",)),
    ("multiedit", ("multi_edit",)),
    ("replace applypatch patch strreplace strreplaceeditor insertedit", _EDIT),
    ("editfiles editfile", _CHANGE),
    (
        "grep grepsearch searchfilecontent ripgrep textsearch findtestfiles usages",
        ("search_files",),
    ),
    ("glob globsearch filesearch find", ("glob_search",)),
    ("search codebase searchresults listcodeusages semanticsearch codesearch", _SEARCH),
    (
        "bash runshellcommand shell execute terminal runcommands runcommand runinterminal"
        " runtasks runtests runtask createandruntask testfailure powershell",
        _SHELL,
    ),
    (
        "bashoutput terminallastcommand getterminaloutput terminalselection",
        ("read_service", "list_services"),
    ),
    ("killshell killbash", ("stop_service",)),
    ("webfetch fetch openfetch openwebsite", ("web_fetch",)),
    ("websearch googlewebsearch", ("web_search",)),
    ("web", _WEB),
    ("problems getdiagnostics diagnostics readlints", ("read_lints",)),
    ("todowrite todoread todo todos writetodos managetodolist", ("todo_write",)),
    ("task agent runsubagent customagent", ("task", "handover", "get_agent_result")),
    ("taskoutput agentoutput", ("get_agent_result",)),
    ("askuserquestion askuser question askquestions", ("ask_question",)),
    ("skill activateskill", ("use_skill",)),
    ("savememory", ("remember",)),
)
_TRANSLATIONS = {word: tools for words, tools in _ROWS for word in words.split()}
# Denying a tool also denies the tools that have the same effect. Other agents have no tools such as
# `rename_symbol`, so nobody who comes from them names these tools. `write` is the permission category:
# every tool that changes files.
_DENIED_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("edit editfile editfiles applypatch patch", ("write",)),
    ("replace strreplace strreplaceeditor insertedit", (*_EDIT, "rename_symbol")),
    ("multiedit", ("multi_edit", "rename_symbol")),
    ("write writefile", ("write_file", "delete_file")),
    ("read readfile readmanyfiles view", ("read_file", *_LOOKUP)),
    (
        "grep grepsearch searchfilecontent ripgrep textsearch usages",
        ("search_files", "semantic_search", "find_definition", "find_references"),
    ),
    (
        "search codebase searchresults listcodeusages semanticsearch codesearch",
        (*_SEARCH, *_LOOKUP),
    ),
    ("task agent", ("task", "handover")),
)
_DENIED = {word: tools for words, tools in _DENIED_ROWS for word in words.split()}
# In VS Code, these tools return the content of files, and the agent edits only files that it has read.
_READING_IN_VSCODE = frozenset(
    "changes codebase editfile editfiles filesearch findtestfiles listcodeusages search"
    " searchresults semanticsearch textsearch usages".split()
)
_NO_COUNTERPART = frozenset(
    "notebookedit exitplanmode enterplanmode enterworktree slashcommand lsp vscodeapi githubrepo"
    " extensions opensimplebrowser new changes think runnotebooks sendmessage taskcreate taskupdate"
    " taskget tasklist taskstop teamcreate teamdelete toolsearch listmcpresources readmcpresource"
    " structuredoutput sleep monitor croncreate crondelete cronlist".split()
)
_COPILOT_GROUPS = frozenset({"read", "edit", "search", "execute", "web", "todo", "agent", "vscode"})

Doubt = Literal["", "unknown", "no counterpart", "no name", "no category"]
_DOUBTS: dict[str, tuple[str, str]] = {
    "unknown": (
        "The tool {} is unknown; the entry takes effect once a plugin provides it.",
        "The tools {} are unknown; the entries take effect once a plugin provides them.",
    ),
    "no counterpart": (
        "hilum has no tool like {}; it is ignored.",
        "hilum has no tools like {}; they are ignored.",
    ),
    "no name": (
        "{} is not a tool name; it is ignored.",
        "{} are not tool names; they are ignored.",
    ),
    "no category": ("The tool {} is unknown.", "The tools {} are unknown."),
}
MAX_NAMES_SHOWN = 12


def describe_doubts(doubts: Iterable[tuple[Doubt, str]]) -> Iterator[str]:
    """Yield one message for each kind of doubtful name.

    Args:
        doubts: Pairs of a kind of doubt and a name; names without doubt are ignored.
    """
    named: dict[str, list[str]] = {}
    for doubt, name in doubts:
        if doubt and name not in named.setdefault(doubt, []):
            named[doubt].append(name)
    for kind, names in named.items():
        listed = ", ".join(map(repr, names[:MAX_NAMES_SHOWN]))
        if len(names) > MAX_NAMES_SHOWN:
            listed += f" and {len(names) - MAX_NAMES_SHOWN} more"
        singular, plural = _DOUBTS[kind]
        yield (plural if len(names) > 1 else singular).format(listed)


def translate_tool(name: str, dialect: str, *, deny: bool = False) -> tuple[tuple[str, ...], Doubt]:
    """Return the hilum tools that a name refers to, and the kind of doubt about the name.

    Args:
        name: The name as written in the file, without parentheses.
        dialect: The dialect of the file.
        deny: Whether the name is denied, in which case tools with the same effect are denied as
            well.
    """
    found = _translation(name, dialect, deny)
    if found:
        return found, ""
    if _fold(name) in _NO_COUNTERPART:
        # A tool that does not exist in hilum need not be denied.
        return (), "" if deny else "no counterpart"
    found = _in_group(name, deny)
    if found:
        return found, ""
    if not re.fullmatch(r"[A-Za-z0-9_.:*?-]{1,128}", name):
        return (), "no name"
    if name in RISKS:
        return (), "no category"
    is_pattern = "*" in name or "?" in name
    is_known = is_pattern and any(fnmatchcase(known, name) for known in KNOWN)
    return (name,), "" if is_known else "unknown"


def _fold(name: str) -> str:
    return re.sub(r"[_\W]+", "", name).casefold()


def _translation(name: str, dialect: str, deny: bool) -> tuple[str, ...]:
    """Return the tools for a known name; empty for any other name."""
    if name == "*" or (dialect == "hilum" and (name in KNOWN or name in RISKS)):
        return (name,)
    server = _server_tool(name, dialect)
    if server:
        return server
    folded = _fold(name)
    if deny and folded in _DENIED:
        return _DENIED[folded]
    if dialect == "copilot" and not deny and folded in _READING_IN_VSCODE:
        return _with_reading(folded)
    if folded == "edit":  # Claude Code: one tool; Copilot: all tools that change files
        return _CHANGE if dialect == "copilot" else _EDIT
    found = _TRANSLATIONS.get(folded, ())
    if not found and name in KNOWN:
        return (name,)
    return found


def _in_group(name: str, deny: bool) -> tuple[str, ...]:
    """Return the tools for a name with a Copilot group prefix, such as ``search/codebase``."""
    group, slash, last = name.partition("/")
    if not slash:
        return ()
    folded = _fold(last)
    if not deny and folded in _READING_IN_VSCODE:
        return _with_reading(folded)
    found = _TRANSLATIONS.get(folded, ())
    if not found and group in _COPILOT_GROUPS:
        found = translate_tool(group, "copilot", deny=deny)[0]
    return found


def _with_reading(folded: str) -> tuple[str, ...]:
    """Return the tools for a tool of VS Code that also reads files."""
    return ("read_file", *_TRANSLATIONS.get(folded, ()))


def _server_tool(name: str, dialect: str) -> tuple[str, ...]:
    """Return the MCP server tools that a name refers to; empty for any other name."""
    if name.startswith("mcp__") or name in ("mcp_*", "mcp"):
        return (server_tools(f"mcp__{name[5:]}"),)
    # Gemini CLI separates server and tool with one underscore.
    if name.startswith("mcp_"):
        return _gemini_server_tools(name.removeprefix("mcp_").split("_"))
    # hilum's own notation for the tools of servers.
    if "__" in name.strip("_"):
        return (name,)
    # opencode also separates server and tool with one underscore.
    if dialect == "opencode" and name.endswith("_*") and "/" not in name:
        return (f"{name.removesuffix('_*')}__*",)
    return () if dialect == "gemini" else _copilot_server_tool(name)


def _copilot_server_tool(name: str) -> tuple[str, ...]:
    """Return the tool for a name of the form ``server/tool``, which may contain a wildcard."""
    server, slash, tool = name.rpartition("/")
    if not slash or server.casefold() in _COPILOT_GROUPS:
        return ()
    if re.fullmatch(r"[\w.@/-]+", server) and re.fullmatch(r"[\w.*-]+", tool):
        return (f"{re.sub(r'[^A-Za-z0-9_-]', '_', server)}__{tool}",)
    return ()


def _gemini_server_tools(parts: list[str]) -> tuple[str, ...]:
    """Return all ways to split ``mcp_server_tool``; both names may contain underscores."""
    splits = [
        f"{'_'.join(parts[:size])}__{'_'.join(parts[size:])}" for size in range(1, len(parts))
    ]
    return tuple(splits) or (f"{parts[0]}__*",)
