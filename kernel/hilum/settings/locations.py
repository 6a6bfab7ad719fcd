"""The settings and folders of hilum, as the environment of the current kernel determines them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from pathlib import Path

from hilum.settings.app import App, Settings
from hilum.settings.sources import Raw

HILUM = App(
    "hilum",
    hint="Correct them; `hilum doctor` checks all settings files.",
    unloaded="A section must be an attribute of its plugin's module.",
)
_environment: ContextVar[Mapping[str, str]] = ContextVar("hilum environment")


def load(
    sections: Iterable[type],
    *,
    workspace: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] = os.environ,
    known: Collection[str] | None = (),
    strict: bool = True,
) -> Settings:
    """Read the settings of hilum from all sources (see ``App.load``)."""
    return HILUM.load(
        sections,
        workspace=workspace,
        overrides=overrides,
        environ=environ,
        known=known,
        strict=strict,
    )


def parse_pair(text: str) -> tuple[str, Raw]:
    """Split a ``key=value`` argument from the command line (see ``App.parse_pair``)."""
    return HILUM.parse_pair(text)


def environment() -> Mapping[str, str]:
    """Return the environment of the current kernel or, outside a kernel, of the process."""
    return _environment.get(os.environ)


def use_environment(environ: Mapping[str, str]) -> AbstractContextManager[None]:
    """Set the result of ``environment`` for this task and the tasks that it starts."""
    return _UsedEnvironment(environ)


class _UsedEnvironment(AbstractContextManager[None]):
    """A class, because each call of a hook needs one, and a generator would take longer."""

    __slots__ = ("_environ", "_token")

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __enter__(self) -> None:
        self._token: Token[Mapping[str, str]] = _environment.set(self._environ)

    def __exit__(self, *_: object) -> None:
        _environment.reset(self._token)


def config_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the user's configuration.

    The folder is ``$HILUM_CONFIG``, ``$XDG_CONFIG_HOME/hilum`` or ``~/.config/hilum``.
    """
    return HILUM.config_folder(environment() if environ is None else environ)


def data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the user's data.

    The folder is ``$HILUM_DATA``, ``$XDG_DATA_HOME/hilum`` or ``~/.local/share/hilum``.
    """
    return HILUM.data_folder(environment() if environ is None else environ)


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for files that can be created again.

    The folder is ``$HILUM_CACHE``, ``$XDG_CACHE_HOME/hilum`` or ``~/.cache/hilum``.
    """
    return HILUM.cache_folder(environment() if environ is None else environ)


def home_folder() -> Path:
    """Return the user's home folder."""
    return Path(environment().get("HOME") or Path.home())
