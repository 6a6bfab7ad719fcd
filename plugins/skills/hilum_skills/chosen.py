"""What the user has chosen with ``hilum skills``: sources, and skills that are off, in
``skills.toml`` beside the settings.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from hilum import UsageError, config_folder

FILE = "skills.toml"
MOST_BYTES = 1_000_000


class Chosen(msgspec.Struct, frozen=True):
    """What stands in the file.

    Attributes:
        sources: Sources as they were added.
        disabled: Names of skills that are off.
        mistake: Why the file could not be read; then nothing of it holds.
    """

    sources: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    mistake: str = ""


def chosen_file() -> Path:
    """Where it is written down."""
    return config_folder() / FILE


def read_chosen() -> Chosen:
    """Read the file; where there is none, nothing is chosen. Blocks."""
    path = chosen_file()
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no plain file")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        import tomllib

        if len(data) > MOST_BYTES:
            raise ValueError("it is too long")
        table = tomllib.loads(data.decode())
        lists = [table.get(key, []) for key in ("sources", "disabled")]
        if not all(
            isinstance(each, list) and all(isinstance(item, str) for item in each) for each in lists
        ):
            raise ValueError("sources and disabled must be lists of texts")
    except FileNotFoundError:
        return Chosen()
    except (OSError, ValueError, RecursionError) as error:
        return Chosen(mistake=f"{path} cannot be read: {error}.")
    return Chosen(tuple(lists[0]), tuple(lists[1]))


def keep(key: str, item: str, *, present: bool) -> bool:
    """Put an item into one of the lists, or take it out.

    Args:
        key: ``sources`` or ``disabled``.
        item: The item.
        present: Whether it is to be there.

    Returns:
        Whether anything was to be done.

    Raises:
        UsageError: The file cannot be changed safely.
    """
    from hilum_settings import ChangeError, change

    known = read_chosen()
    if known.mistake:
        raise UsageError(known.mistake, hint="Mend or remove the file.")
    if (item in getattr(known, key)) == present:
        return False

    def changed(old: object) -> list[str]:
        items = [each for each in old if each != item] if isinstance(old, list) else []
        return [*items, item] if present else items

    try:
        change(chosen_file(), key, changed)
    except ChangeError as error:
        raise UsageError(str(error), hint="Mend or remove the file.") from None
    return True
