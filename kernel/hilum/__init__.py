"""hilum: a coding agent whose every ability is a plugin.

This is the public face. Plugins import ``hilum`` and ``hilum.testing`` and no module below. Names are loaded at first
use, so that ``import hilum`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hilum import aio as aio
    from hilum import blocking as blocking
    from hilum import errors as errors
    from hilum import events as events
    from hilum.agents import Agent as Agent
    from hilum.agents import Mode as Mode
    from hilum.agents import Profile as Profile
    from hilum.agents import ToolFilter as ToolFilter
    from hilum.context import Request as ContextRequest  # noqa: F401
    from hilum.errors import HilumError as HilumError
    from hilum.errors import ModelError as ModelError
    from hilum.errors import NeedsUser as NeedsUser
    from hilum.errors import PluginError as PluginError
    from hilum.errors import SettingsError as SettingsError
    from hilum.errors import StoreError as StoreError
    from hilum.errors import ToolDenied as ToolDenied
    from hilum.errors import ToolError as ToolError
    from hilum.errors import UsageError as UsageError
    from hilum.hookspecs import Interpretation as Interpretation
    from hilum.hookspecs import Verdict as Verdict
    from hilum.hookspecs import allow as allow
    from hilum.hookspecs import ask as ask
    from hilum.hookspecs import deny as deny
    from hilum.hookspecs import hookimpl as hookimpl
    from hilum.hookspecs import hookspec as hookspec
    from hilum.kernel import Kernel as Kernel
    from hilum.kernel import open_kernel as open_kernel
    from hilum.messages import AssistantMessage as AssistantMessage
    from hilum.messages import Block as Block
    from hilum.messages import Image as Image
    from hilum.messages import Layer as Layer
    from hilum.messages import Message as Message
    from hilum.messages import NoteMessage as NoteMessage
    from hilum.messages import Text as Text
    from hilum.messages import Thinking as Thinking
    from hilum.messages import ToolCall as ToolCall
    from hilum.messages import ToolMessage as ToolMessage
    from hilum.messages import ToolResult as ToolResult
    from hilum.messages import ToolSpec as ToolSpec
    from hilum.messages import Trim as Trim
    from hilum.messages import Usage as Usage
    from hilum.messages import UserMessage as UserMessage
    from hilum.processes import Command as Command
    from hilum.session import Run as Run
    from hilum.session import Session as Session
    from hilum.settings import data_folder as data_folder
    from hilum.settings import section as section
    from hilum.settings import setting as setting
    from hilum.tools import Call as Call
    from hilum.tools import Output as Output
    from hilum.tools import Tool as Tool
    from hilum.tools import tool as tool
    from hilum.workspace import Workspace as Workspace

_HOMES = {
    "agents": ("Agent", "Mode", "Profile", "ToolFilter"),
    "errors": (
        "HilumError", "ModelError", "NeedsUser", "PluginError", "SettingsError",
        "StoreError", "ToolDenied", "ToolError", "UsageError",
    ),
    "hookspecs": ("Interpretation", "Verdict", "allow", "ask", "deny", "hookimpl", "hookspec"),
    "kernel": ("Kernel", "open_kernel"),
    "messages": (
        "AssistantMessage", "Block", "Image", "Layer", "Message", "NoteMessage", "Text", "Thinking", "ToolCall",
        "ToolMessage", "ToolResult", "ToolSpec", "Trim", "Usage", "UserMessage",
    ),
    "processes": ("Command",),
    "session": ("Run", "Session"),
    "settings": ("data_folder", "section", "setting"),
    "tools": ("Call", "Output", "Tool", "tool"),
    "workspace": ("Workspace",),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = ("aio", "blocking", "errors", "events", "messages", "models", "store", "testing")

__all__ = sorted((*_HOME, *_MODULES, "ContextRequest", "__version__"))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"hilum.{name}")
    if name == "ContextRequest":
        value = import_module("hilum.context").Request
    elif name in _HOME:
        value = getattr(import_module(f"hilum.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'hilum' has no attribute {name!r}")
    globals()[name] = value
    return value
