"""Provide the guard's content policy to code without a session (see ``hilum.ContentPolicy``).

The policy is registered in the entry point group ``hilum.content_policy``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from hilum import config_folder

from hilum_guard.protected_files import hidden
from hilum_guard.repositories.repository_settings import repository_doubt
from hilum_guard.secrets.redaction import Redactor, is_settings, is_source
from hilum_guard.secrets.settings_secrets import SettingsRedactor, read_settings_secrets


def redact(text: str, path: str = "") -> str:
    """Return text with its secrets redacted.

    Args:
        text: The text.
        path: The file that the text comes from; empty if it does not come from a file.
    """
    # The whole process uses one redactor, because creating one reads all environment variables.
    return _redactor()(text, guess=not is_source(path), settings=is_settings(path))


def make_redactor(
    environ: Mapping[str, str] | None = None, secrets: Mapping[str, str] | None = None
) -> Redactor:
    """Create a redactor. It also replaces the secrets in the user's settings.

    Args:
        environ: The environment whose secrets are replaced; by default, this process's environment.
        secrets: Additional secrets, by name.
    """
    return Redactor(environ, {**read_settings_secrets(config_folder()), **(secrets or {})})


def explain_withheld_file(place: Path, path: str) -> str:
    """Return why sending a file to a model needs approval; empty if it does not.

    Args:
        place: The file, resolved.
        path: The file's path relative to the workspace.
    """
    return hidden(place, path)


def explain_unsafe_repository(folder: str) -> str:
    """Return why ``git status`` in a folder could run a program; empty if it cannot. Blocks."""
    return repository_doubt(folder)


@cache
def _redactor() -> SettingsRedactor:
    return SettingsRedactor(os.environ, config_folder())
