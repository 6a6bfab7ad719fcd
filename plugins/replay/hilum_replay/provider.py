"""The provider that offers cassettes as models."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from hilum.errors import E_UNKNOWN, UsageError

if TYPE_CHECKING:
    from hilum_replay.model import CassetteModel, Pace

_MODES = ("strict", "text", "shape")


class CassetteProvider:
    """A provider of models named ``cassette/PATH``. Implements ``Provider``.

    Options follow a question mark: ``cassette/demo.toml?mode=strict&pace=recorded``.

    Args:
        workspace: Function that returns the workspace of the session with a given id.
    """

    name = "cassette"

    def __init__(self, workspace: Callable[[str], str | os.PathLike[str]]) -> None:
        self._workspace = workspace

    def model(self, name: str) -> CassetteModel:
        """Load the cassette at a path.

        Raises:
            UsageError: The file is not a cassette, or an option is wrong.
        """
        # These modules take longer to import than the rest of this plugin, and most kernels never
        # play a cassette.
        from urllib.parse import parse_qs

        from hilum_replay.cassette_reader import load
        from hilum_replay.model import CassetteModel

        path, _, query = name.partition("?")
        options = {key: values[-1] for key, values in parse_qs(query).items()}
        mode = options.pop("mode", "text")
        pace = options.pop("pace", "0")
        # Signs and exponents are not accepted, because a negative factor has no meaning.
        is_number = pace.replace(".", "", 1).isdigit()
        if options or mode not in _MODES or not (is_number or pace == "recorded"):
            message = f"The cassette's options are invalid: {query!r}."
            hint = (
                "Valid options are mode=strict, mode=text or mode=shape, and pace=recorded or"
                " pace=FACTOR."
            )
            raise UsageError(message, code=E_UNKNOWN, hint=hint)
        factor: Pace = float(pace) if is_number else "recorded"
        return CassetteModel(
            load(os.path.expanduser(path)),
            workspace=self._workspace,
            mode=mode,  # type: ignore[arg-type]  # it is one of _MODES
            pace=factor,
            name=f"{self.name}/{name}",
        )

    async def suggest(self) -> str | None:
        """Return nothing: cassettes are played only if the user names them."""
        return None

    async def names(self) -> list[str]:
        """Return nothing: cassettes are files, and there is no list of them."""
        return []
