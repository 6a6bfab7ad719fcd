"""Name every key in the settings files of other agents that no plugin has reported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hilum.config_files import LoadedFile, UnreadableFile, load_file
from hilum.foreign_files import ForeignFile

from hilum_cli.foreign_keys import (
    ByValue,
    Keys,
    ReadBy,
    SettingsFormat,
    Use,
    list_project_files,
    list_user_files,
)

UNKNOWN = "unknown key: not used"
MAX_DEPTH = 6
MAX_KEYS = 2_000
"""Maximum number of keys of a file that are named."""
MAX_NAMED = 12
"""Maximum number of keys with the same reason in one row."""


def find_other_settings(folder: Path, found: Sequence[ForeignFile]) -> Iterator[ForeignFile]:
    """Yield the settings files with the keys that no plugin uses, each with the reason. Blocks.

    Args:
        folder: The workspace.
        found: What the plugins have reported.
    """
    for path, format_, is_user in _list_files(folder, found):
        kinds = {file.kind for file in found if file.path == path}
        try:
            loaded = load_file(path)
        except UnreadableFile as error:
            if not any(file.path == path and file.problems for file in found):
                line = f":{error.line}" if error.line else ""
                problems = (f"{path}{line}: {error}",)
                yield ForeignFile(path, format_.agent, "settings", is_user, problems=problems)
            continue
        rows = tuple(_describe_keys(loaded, format_, kinds))
        if rows:
            yield ForeignFile(path, format_.agent, "settings", is_user, left=rows)


def _list_files(
    folder: Path, found: Sequence[ForeignFile]
) -> Iterator[tuple[Path, SettingsFormat, bool]]:
    """Yield the existing settings files, each once, and whether the user owns it."""
    users = list_user_files()
    seen: set[str] = set()
    for path, each in users.items():
        if os.path.lexists(path):
            seen.add(os.path.realpath(path))
            yield path, each, True
    for name, each in list_project_files().items():
        paths = [folder / name]
        # Plugins also read the files of the folders between the root of the repository and this one.
        paths += [file.path for file in found if str(file.path).endswith(f"/{name}")]
        for path in paths:
            real = os.path.realpath(path)
            # Like the plugins, hilum does not follow a link that leads out of the project.
            if os.path.lexists(path) and real not in seen and _is_inside(real, path, name):
                seen.add(real)
                yield path, each, False


def _is_inside(real: str, path: Path, name: str) -> bool:
    base = os.path.realpath(str(path).removesuffix(name))
    return real.startswith(os.path.join(base, ""))


def _describe_keys(loaded: LoadedFile, format_: SettingsFormat, kinds: set[str]) -> Iterator[str]:
    """Yield a row for each reason, with the keys that are not used for it."""
    reasons: dict[str, list[str]] = {}
    for number, (keys, value, use) in enumerate(_walk(loaded.data, format_, (), None)):
        if number == MAX_KEYS:
            yield f"there are more than {MAX_KEYS:,} keys; the others are not named"
            break
        reason = _find_reason(value, use, kinds, format_)
        if reason:
            line = loaded.find_line(keys)
            shown = ".".join(keys)
            reasons.setdefault(reason, []).append(f"{shown} (line {line})" if line else shown)
    for reason, names in reasons.items():
        for start in range(0, len(names), MAX_NAMED):
            yield f"{', '.join(names[start : start + MAX_NAMED])}: {reason}"


def _find_reason(value: object, use: Use | None, kinds: set[str], format_: SettingsFormat) -> str:
    """Return why a key is not used; empty if a plugin has reported it."""
    if value in ({}, [], "", None):
        return "it is empty"
    if isinstance(use, ReadBy):
        if use.kind in kinds:
            return ""
        use = use.otherwise or f"it contains no {use.kind} that hilum could use"
    if isinstance(use, ByValue):
        if value == use.value and use.kind in kinds:
            return ""
        use = use.otherwise
    return (use or format_.rest or UNKNOWN).format(agent=format_.agent)


def _walk(
    data: Mapping[str, Any], format_: SettingsFormat, above: Keys, inherited: Use | None
) -> Iterator[tuple[Keys, Any, Use | None]]:
    """Yield the paths of keys that a table distinguishes, each with its value and its use."""
    for key, value in data.items():
        if not above and format_.prefixes and not key.startswith(format_.prefixes):
            continue
        keys = (*above, str(key))
        use = _find_use(keys, format_.keys) or inherited
        is_divided = any(
            len(each) > len(keys) and _fits(each[: len(keys)], keys) for each in format_.keys
        )
        if isinstance(value, dict) and value and is_divided and len(keys) < MAX_DEPTH:
            yield from _walk(value, format_, keys, use)
        else:
            yield keys, value, use


def _find_use(keys: Keys, table: Mapping[Keys, Use]) -> Use | None:
    if keys in table:
        return table[keys]
    return next((use for each, use in table.items() if _fits(each, keys)), None)


def _fits(pattern: Keys, keys: Keys) -> bool:
    if len(pattern) != len(keys):
        return False
    return all(word in ("*", key) for word, key in zip(pattern, keys, strict=True))
