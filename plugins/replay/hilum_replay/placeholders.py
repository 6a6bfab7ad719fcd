"""Placeholders for paths on a machine: ``{workspace}`` and ``{home}``.

If a text itself contains a placeholder, it is written as ``{literal:workspace}``, so that every
text is restored unchanged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

_PLACEHOLDER = re.compile(r"\{((?:literal:)*)(workspace|home)\}")
_LITERAL = "literal:"


class PathPlaceholders:
    """The paths on one machine, and the placeholders that represent them in a cassette.

    Args:
        workspace: The workspace folder; empty for none.
        home: The user's home folder; empty for none.
    """

    def __init__(
        self, workspace: str | os.PathLike[str] = "", home: str | os.PathLike[str] = ""
    ) -> None:
        self.workspace = os.fspath(workspace).rstrip("/\\")
        self.home = os.fspath(home).rstrip("/\\")
        # If both are the same folder, the workspace's placeholder is used.
        names = dict.fromkeys(_spellings(self.home), "home")
        names |= dict.fromkeys(_spellings(self.workspace), "workspace")
        self._paths = _PathPattern(names)
        # Call arguments are JSON text, in which a path may be escaped.
        escaped = {_escape(path): name for path, name in names.items()}
        self._json_paths = _PathPattern(escaped)

    @classmethod
    def for_this_machine(cls, workspace: str | os.PathLike[str] = "") -> PathPlaceholders:
        """Create placeholders for this machine; the workspace is the current folder by default."""
        return cls(workspace or Path.cwd(), Path.home())

    def insert(self, text: str) -> str:
        """Replace paths with placeholders."""
        return self._paths.replace(text)

    def insert_in_json(self, text: str) -> str:
        """Replace paths in JSON text with placeholders."""
        return self._json_paths.replace(text)

    def resolve(self, text: str) -> str:
        """Replace placeholders with paths; the reverse of ``insert``.

        A placeholder without a path is kept.
        """
        return _resolve(text, {"workspace": self.workspace, "home": self.home})

    def resolve_in_json(self, text: str) -> str:
        """Replace placeholders in JSON text with paths."""
        paths = {"workspace": _escape(self.workspace), "home": _escape(self.home)}
        return _resolve(text, paths)


def _resolve(text: str, paths: Mapping[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        literals, name = match.groups()
        if literals:
            # Remove one ``literal:``, because the original text contained this placeholder itself.
            fewer = literals.removeprefix(_LITERAL)
            return f"{{{fewer}{name}}}"
        return paths[name] or match.group()

    return _PLACEHOLDER.sub(fill, text)


def _spellings(path: str) -> list[str]:
    """Return the path, and the real path to which its links lead.

    Paths such as ``/`` are too short to be unambiguous, and are not replaced.
    """
    if len(Path(path).parts) < 2:
        return []
    real = os.path.realpath(path)
    if real == path or len(Path(real).parts) < 2:
        return [path]
    return [path, real]


def _escape(text: str) -> str:
    """Return a text as it appears in a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class _PathPattern:
    """A pattern that finds paths, and the name of each path's placeholder."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        # The longest path is tried first, because the workspace is often inside the home folder.
        paths = sorted(names, key=len, reverse=True)
        alternatives = "|".join(map(re.escape, paths))
        # A path must not be followed by another character of a name: /a/ws is not replaced in
        # /a/ws-2 or /a/ws.old.
        self._pattern = re.compile(rf"({alternatives})(?![\w-]|\.\w)") if paths else None

    def replace(self, text: str) -> str:
        # Placeholders in the text itself are marked before others are inserted.
        text = _PLACEHOLDER.sub(_mark_literal, text)
        if self._pattern is None:
            return text
        return self._pattern.sub(self._insert, text)

    def _insert(self, match: re.Match[str]) -> str:
        name = self._names[match.group()]
        return f"{{{name}}}"


def _mark_literal(match: re.Match[str]) -> str:
    inner = match.group().removeprefix("{")
    return f"{{{_LITERAL}{inner}"
