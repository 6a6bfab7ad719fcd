"""The kernel's own settings, and how hilum binds the library ``hilum_settings``, which reads and
writes all settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal, TypeVar, dataclass_transform, get_args

import hilum_settings
from hilum_settings import FILE, App, Raw, Settings, sections_of, setting

from hilum.errors import PluginError, SettingsError

__all__ = [
    "FILE",
    "KernelSettings",
    "PluginSettings",
    "Raw",
    "Settings",
    "cache_folder",
    "config_folder",
    "data_folder",
    "environment",
    "home_folder",
    "load",
    "parse_pair",
    "section",
    "sections_of",
    "setting",
    "use_environment",
]

T = TypeVar("T")
HILUM = App(
    "hilum",
    error=SettingsError,
    misuse=PluginError,
    hint="hilum config shows all settings and where they come from.",
    unloaded="A section must be an attribute of its plugin's module.",
)
parse_pair = HILUM.parse_pair
load = HILUM.load
_environment: ContextVar[Mapping[str, str]] = ContextVar("hilum environment")


def environment() -> Mapping[str, str]:
    """Return the environment variables of the kernel whose code runs: those given to
    ``open_kernel``, or the process's.
    """
    return _environment.get(os.environ)


@contextmanager
def use_environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Create an environment the one that ``environment`` returns, in this task and in those that it
    starts.
    """
    token = _environment.set(environ)
    try:
        yield
    finally:
        _environment.reset(token)


def config_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the user's configuration: ``$HILUM_CONFIG``, ``$XDG_CONFIG_HOME/hilum``
    or ``~/.config/hilum``.
    """
    return HILUM.config_folder(environment() if environ is None else environ)


def data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the user's data: ``$HILUM_DATA``, ``$XDG_DATA_HOME/hilum`` or
    ``~/.local/share/hilum``.
    """
    return HILUM.data_folder(environment() if environ is None else environ)


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for what can be made again: ``$HILUM_CACHE``, ``$XDG_CACHE_HOME/hilum`` or
    ``~/.cache/hilum``.
    """
    return HILUM.cache_folder(environment() if environ is None else environ)


def home_folder() -> Path:
    """Return the user's home folder."""
    return Path(environment().get("HOME") or Path.home())


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting,))
def section(name: str | None = None) -> Callable[[type[T]], type[T]]:
    """Create a frozen class of a class of settings, and name the table they stand in.

    Args:
        name: Name of the table, by convention the plugin's; ``""`` is the top level, the kernel's
            own. ``None`` is for a table nested in another one, which is the type of a setting
            there.

    Raises:
        PluginError: A setting has no default. (In nested tables it may be required.)
    """
    return hilum_settings.section(name, error=PluginError)


@section()
class PluginSettings:
    """Which plugins are loaded, by name."""

    allow: list[str] | None = setting(
        default=None, help="Only these plugins are loaded; all when not set."
    )
    block: list[str] = setting(factory=list, help="Plugins that are never loaded.")
    order: list[str] = setting(factory=list, help="Plugins that come first, in this order.")


Approve = Literal["ask_first", "auto", "readonly"]
SessionKind = Literal["main", "shared", "headless"]
KINDS: tuple[str, ...] = get_args(SessionKind)


@section("")
class KernelSettings:
    """The kernel's settings; they stand at the top of the file, outside any table."""

    model: str = setting(
        default="",
        project="user",
        help="Model to use, provider/name; empty lets the providers suggest one.",
    )
    roles: dict[str, str] = setting(
        factory=dict, project="user", help="Models by role: default, fast, summarize."
    )
    fallback: list[str] = setting(
        factory=list, project="user", help="Models to try, in order, when the chosen one fails."
    )
    mode: str = setting(default="agent", project="user", help="Mode a session starts in.")
    approve: Approve = setting(
        default="ask_first", project=False, help="What happens to calls that change something."
    )
    approval_timeout: float = setting(
        default=300.0,
        minimum=0,
        project="lower",
        help="Seconds until an unanswered approval is a no.",
    )
    turns: int = setting(default=25, minimum=1, project="lower", help="Most model calls of a run.")
    timeout: float | None = setting(
        default=None,
        minimum=0,
        project="lower",
        help="Seconds a run may take; no limit when not set.",
    )
    token_limit: int | None = setting(
        default=None,
        minimum=1,
        project="lower",
        help="Tokens a run may use; no limit when not set.",
    )
    silence: float = setting(
        default=30.0,
        minimum=0,
        project="user",
        help=(
            "Seconds without content until a model counts as silent; its signs of life stretch them"
            " to four times."
        ),
    )
    answer_timeout: float = setting(
        default=3_600.0,
        minimum=1,
        project="lower",
        help="Seconds that one answer of a model may take.",
    )
    required: list[str] = setting(
        factory=list, project=False, help="Distributions without which no tool call runs."
    )
    extra_roots: list[str] = setting(
        factory=list, project=False, help="Folders besides the workspace to use files in."
    )
    plugins: PluginSettings = setting(
        factory=PluginSettings, project=False, help="Which plugins are loaded."
    )
    session_kind: SessionKind = setting(
        default="main", project=False, help="Kind of a new session: main, shared, headless."
    )
