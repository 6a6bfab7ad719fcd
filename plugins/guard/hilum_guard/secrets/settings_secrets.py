"""Reads the secrets in the user's settings and the keys that hilum keeps, to redact them."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hilum_guard.secrets.redaction import Redactor, find_settings_secrets

SETTINGS = "settings.toml"
KEYS = "keys.toml"


class SettingsRedactor:
    """A redactor that also knows the secrets in the user's settings.

    A key that the user stores while a session is open is redacted from then on. A key that was
    replaced or removed is still redacted, because earlier texts may contain it.

    Args:
        environ: The environment whose secrets are redacted.
        config: The user's configuration folder.
    """

    def __init__(self, environ: Mapping[str, str], config: Path) -> None:
        self._environ = environ
        self._config = config
        # Strings, because converting a path takes longer than the look at the file.
        self._files = (str(config / SETTINGS), str(config / KEYS))
        self._stamps: tuple[tuple[int, int] | None, ...] = ()
        self._secrets: dict[str, str] = {}
        # Threads must not publish an older redactor after a newer one.
        self._lock = threading.Lock()
        self._redactor = self.current()

    def __call__(self, text: str, *, guess: bool = True, settings: bool = False) -> str:
        """Return a text without its secrets. Threads may call it.

        Args:
            text: The text.
            guess: Whether to redact values that are only named like a secret.
            settings: Whether the text comes from a settings file.
        """
        return self.current()(text, guess=guess, settings=settings)

    def current(self) -> Redactor:
        """Return the redactor for several texts that are redacted now. Threads may call it."""
        with self._lock:
            return self._refresh_alone()

    def _refresh_alone(self) -> Redactor:
        stamps = tuple(map(_read_stamp, self._files))
        if stamps != self._stamps:
            found = read_settings_secrets(self._config)
            for name, secret in self._secrets.items():
                if found.get(name, secret) != secret:
                    found[f"{name}.earlier"] = secret
                else:
                    found[name] = secret
            self._secrets = found
            self._redactor = Redactor(self._environ, found)
            self._stamps = stamps
        return self._redactor


def _read_stamp(file: Path | str) -> tuple[int, int] | None:
    """Return what changes when a file changes; None if the file cannot be read."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def read_settings_secrets(config: Path) -> dict[str, str]:
    """Return the secrets in the user's settings, and the keys that ``hilum models key`` stores.

    Keys in the system's keyring are not included: commands and files do not contain them.
    """
    stamps = [_read_stamp(config / name) for name in (SETTINGS, KEYS)]
    return dict(_read_secrets(config, *stamps))


@functools.lru_cache(maxsize=4)
def _read_secrets(config: Path, *stamps: tuple[int, int] | None) -> dict[str, str]:
    """Read the secrets. The stamps of the files tell whether an earlier result is still valid."""
    return {
        **find_settings_secrets(_read_table(config / SETTINGS)),
        **find_settings_secrets(_read_table(config / KEYS), "keys"),
    }


def _read_table(file: Path) -> dict[str, Any]:
    """Return the content of a TOML file; empty if it cannot be read."""
    if not file.exists():
        return {}
    import tomllib  # the import takes 7 ms, which most sessions save

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # the file's own plugin reports the error
        return {}
