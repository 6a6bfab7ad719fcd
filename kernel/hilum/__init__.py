"""hilum: a coding agent whose every ability is a plugin.

This is the public face. Plugins import ``hilum`` and ``hilum.testing`` and no module below. Names
are loaded at first use, so that ``import hilum`` costs next to nothing.
"""

import sys

TYPE_CHECKING = False  # typing takes longer than all the rest
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any
else:
    import _signal  # signal itself imports enum, and that takes long enough to be interrupted

# Where the program `hilum` starts, Ctrl-C just ends the process until a command runs: an interrupt
# in the middle of an import would end in a traceback. `python -m hilum` imports this package before
# anything else of hilum, while its name is still "-m"; so does the script `hilum`. A program that
# uses hilum as a library keeps its handler.
_program = "".join(getattr(sys, "argv", ())[:1])  # a program that embeds Python need not set any
_ENDED_BY_INTERRUPT = (_program == "-m" or _program.endswith(("/hilum", "\\hilum.exe"))) and (
    _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
)
if _ENDED_BY_INTERRUPT:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from importlib import import_module  # noqa: E402

__version__ = "0.1.0"

_HOMES = {
    "bounds": ("calls_left_behind",),
    "context": ("ContextRequest", "estimate"),
    "agents": ("Agent", "Mode", "Profile", "ToolFilter"),
    "errors": (
        "HilumError",
        "ModelError",
        "NeedsUser",
        "PluginError",
        "SettingsError",
        "StoreError",
        "ToolDenied",
        "ToolError",
        "UsageError",
    ),
    "hookspecs": ("Interpretation", "Verdict", "allow", "ask", "deny", "hookimpl", "hookspec"),
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
        "Trim",
        "Usage",
        "UserMessage",
    ),
    "processes": ("Command", "Completed", "Process", "Processes"),
    "services": ("ReadingPolicy",),
    "session": ("Run", "Session"),
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
    "standard": ("open_standard_session",),
    "tools": ("EVERYTHING", "Call", "Output", "Tool", "tool"),
    "workspace": ("Place", "Workspace"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = (
    "aio",
    "blocking",
    "compaction",
    "errors",
    "events",
    "messages",
    "models",
    "store",
    "testing",
)

__all__ = sorted((*_HOME, *_MODULES, "__version__"))


def __getattr__(name: str) -> "Any":
    if name in _MODULES:
        return import_module(f"hilum.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'hilum' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"hilum.{_HOME[name]}"), name)
    return value
