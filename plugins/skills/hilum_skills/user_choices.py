"""The user's choices made with ``hilum skills``: sources and disabled skills.

The choices are stored in ``skills.toml``, in the settings folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import NewType

import attrs
from hilum import UsageError, config_folder, settings

from hilum_skills import lazy

FILE = "skills.toml"
MAX_BYTES = 1_000_000
HINT = "Correct or remove the file."
# A list of strings.
Texts = NewType("Texts", tuple[str, ...])


@attrs.frozen
class ChoicesFile:
    """The keys of ``skills.toml``.

    Attributes:
        sources: Sources as written by the user.
        disabled: Names of disabled skills.
    """

    sources: Texts = Texts(())
    disabled: Texts = Texts(())


@attrs.frozen
class UserChoices(ChoicesFile):
    """The contents of ``skills.toml``.

    Attributes:
        mistake: Why the file cannot be used; if set, nothing in the file takes effect.
    """

    mistake: str = ""


def choices_path() -> Path:
    """Return the path of ``skills.toml``."""
    return config_folder() / FILE


def read_choices() -> UserChoices:
    """Read ``skills.toml``, if it exists. Blocks."""
    path = choices_path()
    try:
        table = _read_table(path)
    except FileNotFoundError:
        return UserChoices()
    except (OSError, ValueError, RecursionError) as error:
        return UserChoices(mistake=f"{path} cannot be read: {error}.")
    return _structure(path, table)


def _read_table(path: Path) -> dict[str, object]:
    data = _read_bytes(path)
    import tomllib  # imported here, because it takes 7 ms and most users have no such file

    return tomllib.loads(data.decode())


def _read_bytes(path: Path) -> bytes:
    # Opening a pipe would block until a process writes to it.
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        # Reading one byte more than the limit detects a file that is too large without reading all
        # of it.
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
    return data


def _structure(path: Path, table: dict[str, object]) -> UserChoices:
    # The check is strict, because a misspelled ``disabled`` would silently enable skills.
    converter = lazy.structure.make_converter({Texts: lazy.structure.check_texts})
    choices, mistakes = lazy.structure.structure(converter, table, ChoicesFile)
    if choices is not None:
        return UserChoices(choices.sources, choices.disabled)
    known = " and ".join(field.name for field in attrs.fields(ChoicesFile))
    unknown = f"is not a known key (known: {known})"
    reasons = [f"{key} {message or unknown}" for key, message in mistakes]
    return UserChoices(mistake=f"{path} cannot be read: {'; '.join(reasons)}.")


def set_choice(key: str, item: str, *, present: bool) -> bool:
    """Add an item to one of the lists, or remove it.

    Args:
        key: ``sources`` or ``disabled``.
        item: The item.
        present: Whether the list should contain the item.

    Returns:
        Whether the list changed.

    Raises:
        UsageError: The file cannot be changed safely.
    """
    known = read_choices()
    # Writing a file that could not be parsed would lose its contents.
    if known.mistake:
        raise UsageError(known.mistake, hint=HINT)
    # Do not write the file unnecessarily, because the user may have it open in an editor.
    if (item in getattr(known, key)) == present:
        return False

    def change_list(old: object) -> list[str]:
        items = [each for each in old if each != item] if isinstance(old, list) else []
        return [*items, item] if present else items

    try:
        settings.change(choices_path(), key, change_list)
    except settings.ChangeError as error:
        raise UsageError(str(error), hint=HINT) from None
    return True
