"""The provider of cassettes as models."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from hilum.errors import E_UNKNOWN, UsageError

if TYPE_CHECKING:
    from hilum_replay.model import CassetteModel, Pace


class CassetteProvider:
    """Models named ``cassette/PATH``.

    Options follow a question mark: ``cassette/demo.toml?mode=strict&pace=recorded``.

    Args:
        workspace: Gives a session's workspace by the session's id.
    """

    name = "cassette"

    def __init__(self, workspace: Callable[[str], str | os.PathLike[str]]) -> None:
        self._workspace = workspace

    def model(self, name: str) -> CassetteModel:
        """Load the cassette of that path.

        Raises:
            UsageError: The file is no cassette, or an option is wrong.
        """
        # Reading cassettes takes longer to import than all else here, and most kernels never play
        # one.
        from urllib.parse import parse_qs

        from hilum_replay.format import load
        from hilum_replay.model import CassetteModel

        path, _, query = name.partition("?")
        options = {key: values[-1] for key, values in parse_qs(query).items()}
        mode = options.pop("mode", "text")
        pace = options.pop("pace", "0")
        known = pace == "recorded" or pace.replace(".", "", 1).isdigit()
        if options or mode not in ("strict", "text", "shape") or not known:
            hint = "Options are mode=strict, text or shape and pace=recorded or a factor."
            raise UsageError(
                f"The options of the cassette are wrong: {query!r}.", code=E_UNKNOWN, hint=hint
            )
        cassette = load(os.path.expanduser(path))
        speed: Pace = "recorded" if pace == "recorded" else float(pace)
        full = f"{self.name}/{name}"
        return CassetteModel(cassette, workspace=self._workspace, mode=mode, pace=speed, name=full)  # type: ignore[arg-type]

    async def suggest(self) -> str | None:
        """Cassettes are only played when they are asked for."""
        return None

    async def names(self) -> list[str]:
        """Cassettes are files; there is no list of them."""
        return []
