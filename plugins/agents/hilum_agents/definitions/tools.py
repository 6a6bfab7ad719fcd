"""Names of tools in the files of other programs, and what they are called here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

from hilum_guard import server_tools

_EDIT = ("edit_file", "multi_edit")
_CHANGE = ("write_file", *_EDIT, "delete_file")
_SEARCH = ("search_files", "glob_search", "list_directory")
_SHELL = ("run_terminal_cmd", "list_services", "read_service", "write_service", "stop_service")
_WEB = ("web_fetch", "web_search")

KNOWN: dict[str, str] = {
    **dict.fromkeys(
        (
            "read_file",
            *_SEARCH,
            "read_lints",
            "use_skill",
            "recall_result",
            "list_services",
            "read_service",
        ),
        "read",
    ),
    **dict.fromkeys(
        ("todo_write", "ask_question", "get_agent_result", "find_tools", "remember"), "read"
    ),
    **dict.fromkeys((*_CHANGE, "forget"), "write"),
    **dict.fromkeys(
        ("run_terminal_cmd", "write_service", "stop_service", "task", "handover", "call_tool"),
        "execute",
    ),
    **dict.fromkeys(_WEB, "network"),
}
"""The tools of the standard set, and what each may touch: for whoever has no session to ask."""

RISKS = frozenset({"read", "write", "execute", "network"})
"""What a tool may touch; a filter may say this instead of a name."""

# By name in small letters without `_` and `-`. One row a meaning; Claude Code, Gemini CLI,
# opencode, Copilot (new and old).
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
        (
            "bash runshellcommand shell execute terminal runcommands runcommand runinterminal"
            " runtasks runtests runtask createandruntask testfailure powershell"
        ),
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
_TABLE = {word: ours for words, ours in _ROWS for word in words.split()}
_NO_COUNTERPART = frozenset(
    "notebookedit exitplanmode enterplanmode enterworktree slashcommand lsp vscodeapi githubrepo"
    " extensions opensimplebrowser new changes runnotebooks sendmessage taskcreate taskupdate"
    " taskget tasklist taskstop teamcreate teamdelete toolsearch listmcpresources readmcpresource"
    " structuredoutput sleep monitor croncreate crondelete cronlist".split()
)


Doubt = Literal["", "unknown", "nothing", "no name", "no risk"]
_DOUBTS: dict[str, tuple[str, str]] = {
    "unknown": (
        "The tool {} is not known; it counts once a plugin provides it.",
        "The tools {} are not known; they count once a plugin provides them.",
    ),
    "nothing": (
        "hilum has nothing that does what the tool {} does.",
        "hilum has nothing that does what the tools {} do.",
    ),
    "no name": (
        "{} is no name of a tool; it is left out.",
        "{} are no names of tools; they are left out.",
    ),
    "no risk": ("The tool {} is not known.", "The tools {} are not known."),
}
MOST_NAMED = 12


def tell_doubts(doubts: Iterable[tuple[Doubt, str]]) -> Iterator[str]:
    """Return what is not certain of names of tools, all of a kind in one sentence.

    Args:
        doubts: Kind of doubt and name; without one there is nothing to say.
    """
    named: dict[str, list[str]] = {}
    for doubt, name in doubts:
        if doubt and name not in named.setdefault(doubt, []):
            named[doubt].append(name)
    for kind, names in named.items():
        listed = ", ".join(map(repr, names[:MOST_NAMED]))
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        yield _DOUBTS[kind][len(names) > 1].format(listed + more)


def ours(name: str, dialect: str, *, deny: bool = False) -> tuple[tuple[str, ...], Doubt]:
    """Return the tools here that a name stands for, and what is doubtful about it.

    Args:
        name: As the file has it, without what stands in parentheses.
        dialect: Whose file it is.
        deny: It is denied: then what does the same by another way is denied, too.
    """
    if dialect == "hilum" and (name in KNOWN or name in RISKS):
        return (name,), ""
    if name == "*":
        return ("*",), ""
    server = _server_tool(name, dialect)
    if server:
        return server, ""
    folded = re.sub(r"[_\W]+", "", name).casefold()
    if folded == "edit":  # one tool in Claude Code and opencode, all that changes files in Copilot
        return _CHANGE if dialect == "copilot" or deny else _EDIT, ""
    if folded in ("write", "writefile") and deny:
        return ("write_file", "delete_file"), ""
    if folded in ("task", "agent") and deny:
        return ("task", "handover"), ""
    found = _TABLE.get(folded)
    if found:
        return found, ""
    if name in KNOWN:
        return (name,), ""
    if folded in _NO_COUNTERPART:
        return (), "" if deny else "nothing"
    if "/" in name:
        group, _, last = name.partition("/")
        inner = _TABLE.get(re.sub(r"[_\W]+", "", last).casefold()) or (
            ours(group, "copilot")[0] if group in _GROUPS else ()
        )
        if inner:
            return inner, ""
    if not re.fullmatch(r"[A-Za-z0-9_.:*?-]{1,128}", name):
        return (), "no name"
    if any(sign in name for sign in "*?") and any(fnmatchcase(known, name) for known in KNOWN):
        return (name,), ""
    if name in RISKS:
        return (), "no risk"
    return (name,), "unknown"


_GROUPS = frozenset({"read", "edit", "search", "execute", "web", "todo", "agent", "vscode"})


def _server_tool(name: str, dialect: str) -> tuple[str, ...]:
    """The tools of an MCP server that a name stands for; empty where it names none."""
    if name.startswith("mcp__") or name in ("mcp_*", "mcp"):
        return (server_tools(f"mcp__{name[5:]}"),)
    if name.startswith("mcp_"):
        parts = name.removeprefix("mcp_").split("_")
        return tuple(
            f"{'_'.join(parts[:n])}__{'_'.join(parts[n:])}" for n in range(1, len(parts))
        ) or (f"{parts[0]}__*",)
    if "__" in name.strip("_"):
        return (name,)
    if "/" in name and dialect != "gemini":
        server, _, tool = name.rpartition("/")
        if (
            server.casefold() not in _GROUPS
            and re.fullmatch(r"[\w.@/-]+", server)
            and re.fullmatch(r"[\w.*-]+", tool)
        ):
            return (f"{re.sub(r'[^A-Za-z0-9_-]', '_', server)}__{tool}",)
    if dialect == "opencode" and name.endswith("_*"):
        return (f"{name.removesuffix('_*')}__*",)
    return ()
