"""The half that makes conversations fit the model's window."""

from __future__ import annotations

from hilum_memory.settings import MemorySettings


class Trimming:
    """The half of a session that makes its conversations fit."""

    def __init__(self, settings: MemorySettings) -> None:
        self.settings = settings
