"""hilum: a coding agent whose every ability is a plugin.

This package is the public API. Plugins import ``hilum``, ``hilum.testing`` and the public modules
and sub-packages that ``_MODULES`` lists, but nothing below those. Names are imported on first use,
so ``import hilum`` takes almost no time.
"""

import sys

TYPE_CHECKING = False  # importing typing takes longer than all other imports combined
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any
else:
    import _signal  # `signal` imports enum, and Ctrl-C could interrupt that

# While the program `hilum` starts, Ctrl-C simply ends the process, because an interrupt during an
# import would show a traceback. Both `python -m hilum`, whose sys.argv[0] is still "-m" at this
# point, and the script `hilum` import this package first. A program that uses hilum as a library
# keeps its own handler.
_program = "".join(getattr(sys, "argv", ())[:1])  # a program that embeds Python may not set argv
_ENDED_BY_INTERRUPT = (_program == "-m" or _program.endswith(("/hilum", "\\hilum.exe"))) and (
    _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
)
if _ENDED_BY_INTERRUPT:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

__version__ = "0.1.0"

_HOMES = {
    "time_limits": ("calls_left_behind",),
    "context": ("ContextRequest", "estimate"),
    "folder_trees": ("remove_folder", "walk_folders"),
    "discovery": ("list_plugin_modules", "list_program_commands", "list_user_commands"),
    "agents": ("Agent", "Mode", "Profile", "ToolFilter"),
    "errors": (
        "AddressRefused",
        "HilumError",
        "ModelError",
        "NeedsUser",
        "PluginError",
        "PromptDenied",
        "SettingsError",
        "StoreError",
        "ToolDenied",
        "ToolError",
        "UsageError",
    ),
    "hookspecs": (
        "Interpretation",
        "PromptCommand",
        "Verdict",
        "allow",
        "ask",
        "deny",
        "hookimpl",
        "hookspec",
    ),
    "identifiers": ("make_id", "use_ids"),
    "images": ("find_media_type", "identify_image", "measure_image", "read_image"),
    "json_sizes": ("has_more_values",),
    "kernel": ("Kernel", "open_kernel"),
    "messages": (
        "AssistantMessage",
        "Block",
        "Image",
        "Layer",
        "Message",
        "NoteMessage",
        "Text",
        "Thinking",
        "ToolCall",
        "ToolMessage",
        "ToolResult",
        "ToolSpec",
        "Compaction",
        "Usage",
        "UserMessage",
    ),
    "approval_facts": (
        "ApprovalFacts",
        "find_approval_dangers",
        "find_approval_facts",
        "is_once_only",
        "says_the_same",
    ),
    "model_access": ("ModelAccess", "ModelTest", "ProviderStatus"),
    "model_calls": ("ModelCall", "ModelCallDenied", "admit_model_call"),
    "network": ("find_proxy", "is_loopback"),
    "repeated_calls": ("make_repeat_report",),
    "rewinding": (
        "RewindPoint",
        "find_history",
        "find_rewind_points",
        "preview_since",
        "rewind",
    ),
    "workspace_files": ("WorkspaceFiles", "find_branch"),
    "plugins": ("rehearse_loading",),
    "private_folders": ("make_private_folder",),
    "processes": ("Command", "Completed", "Process", "Processes"),
    "services": (
        "AddressPolicy",
        "ApprovalTexts",
        "ContentPolicy",
        "Danger",
        "EditorFiles",
        "FileSaver",
        "ReadingPolicy",
        "RecordedResults",
        "Redactor",
        "WarmCheckers",
        "WarmFinding",
        "WebAddress",
        "find_address_policy",
        "find_approval_texts",
        "BackgroundCommands",
        "Confinement",
        "FileChanges",
        "FileHistory",
        "AnnouncedCalls",
        "OfferedServers",
        "Plans",
        "UserQuestions",
        "find_content_policy",
        "find_file_saver",
        "make_redactor",
    ),
    "runs": ("Run",),
    "session": ("Session",),
    "settings": (
        "cache_folder",
        "config_folder",
        "data_folder",
        "environment",
        "home_folder",
        "parse_pair",
        "section",
        "setting",
    ),
    "standard": ("open_standard_session", "read_session_options"),
    "sub_commands": ("load_command",),
    "temporary": ("make_temporary_folder", "open_temporary_folder", "sweep_temporary_folders"),
    "tools": ("EVERYTHING", "Call", "Output", "Tool", "tool"),
    "verdicts": ("Judgement", "judge_call", "judge_whole_call"),
    "wall_clock": ("read_clock", "use_clock"),
    "window": ("measure_window",),
    "workspace": ("Place", "Workspace"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = (
    "aio",
    "blocking",
    "checks",
    "command",
    "compaction",
    "config_files",
    "errors",
    "events",
    "foreign_files",
    "fork_client",
    "frontmatter",
    "hooks",
    "hosts",
    "inotify",
    "journal",
    "listening",
    "messages",
    "models",
    "module_archive",
    "program_start",
    "shared_reads",
    "processes",
    "services",
    "settings",
    "sharing",
    "shell_lines",
    "signature",
    "store",
    "testing",
    "tokens",
    "trust",
    "window",
    "workspace",
)

__all__ = sorted((*_HOME, *_MODULES, "__version__"))


def __getattr__(name: str) -> "Any":
    from importlib import import_module  # the client of the fork server does not need it

    if name in _MODULES:
        return import_module(f"hilum.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'hilum' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"hilum.{_HOME[name]}"), name)
    return value
