"""The half of a kernel: fetches repositories that the user has chosen and that are not there yet.

No session takes part.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from hilum import HilumError, Kernel

from hilum_skills.chosen import read_chosen
from hilum_skills.clones import Clones
from hilum_skills.settings import SkillsSettings
from hilum_skills.source import Source

AT_ONCE = 4


class Fetching:
    """What is being fetched.

    Attributes:
        clones: What was fetched.
        failed: Why sources could not be fetched, by source.
        over: Set when there is nothing left to fetch.
    """

    def __init__(self) -> None:
        self.clones = Clones()
        self.failed: dict[str, str] = {}
        self.over = trio.Event()


@asynccontextmanager
async def open_fetching(kernel: Kernel) -> AsyncIterator[Fetching]:
    """Fetch what is missing, beside everything else, until the kernel closes."""
    settings = kernel.settings(SkillsSettings)
    fetching = Fetching()
    missing = await trio.to_thread.run_sync(_missing, settings, fetching.clones)
    async with trio.open_nursery() as nursery:
        if missing:
            nursery.start_soon(_fetch_all, settings, missing, fetching)
        else:
            fetching.over.set()
        yield fetching
        nursery.cancel_scope.cancel()


def _missing(settings: SkillsSettings, clones: Clones) -> list[Source]:
    from hilum_skills.catalog import sources

    every = list(sources(settings, read_chosen(), []))
    return [source for source in every if source.kind == "git" and clones.find(source) is None]


async def _fetch_all(settings: SkillsSettings, missing: list[Source], fetching: Fetching) -> None:
    from hilum_warden import Warden

    from hilum_skills.git import Git

    slots = trio.CapacityLimiter(AT_ONCE)

    async def fetch(source: Source) -> None:
        async with slots:
            try:
                await fetching.clones.fetch(source, git)
            except HilumError as error:
                fetching.failed[source.text] = str(error)

    async with Warden() as warden:
        git = Git(warden, settings.timeout, settings.megabytes * 1_000_000)
        async with trio.open_nursery() as nursery:
            for source in missing:
                nursery.start_soon(fetch, source)
    fetching.over.set()
