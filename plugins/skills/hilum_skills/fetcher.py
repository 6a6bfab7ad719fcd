"""Fetches the user's missing repositories while a kernel is open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from hilum import HilumError, Kernel
from hilum.processes import Warden

from hilum_skills import lazy
from hilum_skills.catalog import list_sources
from hilum_skills.clones import Clones
from hilum_skills.settings import SkillsSettings
from hilum_skills.source import SkillSource
from hilum_skills.user_choices import read_choices

# More concurrent fetches would only share the same bandwidth, and servers limit connections.
MAX_PARALLEL = 4


class Fetcher:
    """The kernel plugin that fetches repositories.

    Attributes:
        clones: The fetched repositories.
        failed: Why sources could not be fetched, by source.
        done: An event that is set when there is nothing left to fetch.
    """

    def __init__(self) -> None:
        self.clones = Clones()
        self.failed: dict[str, str] = {}
        self.done = trio.Event()


@asynccontextmanager
async def open_fetcher(kernel: Kernel) -> AsyncIterator[Fetcher]:
    """Fetch missing repositories in the background until the kernel closes."""
    settings = kernel.settings(SkillsSettings)
    fetcher = Fetcher()
    # This runs in a thread, because reading the cache blocks.
    missing = await trio.to_thread.run_sync(_find_missing, settings, fetcher.clones)
    async with trio.open_nursery() as nursery:
        if missing:
            nursery.start_soon(_fetch_all, settings, missing, fetcher)
        else:
            fetcher.done.set()
        yield fetcher
        # The next kernel fetches any remaining repositories.
        nursery.cancel_scope.cancel()


def _find_missing(settings: SkillsSettings, clones: Clones) -> list[SkillSource]:
    sources = list_sources(settings, read_choices(), [])
    repositories = [source for source in sources if source.kind == "git"]
    return [source for source in repositories if clones.find(source) is None]


async def _fetch_all(
    settings: SkillsSettings,
    missing: list[SkillSource],
    fetcher: Fetcher,
) -> None:
    slots = trio.CapacityLimiter(MAX_PARALLEL)

    async def fetch(source: SkillSource) -> None:
        async with slots:
            try:
                await fetcher.clones.fetch(source, git)
            except HilumError as error:
                # A failed fetch must not end other fetches or the kernel; the session reports the
                # failure.
                fetcher.failed[source.text] = str(error)

    # If the kernel closes during a fetch, the warden ends Git and its child processes.
    async with Warden() as warden:
        git = lazy.git.GitClient(warden, settings.timeout, settings.megabytes * 1_000_000)
        async with trio.open_nursery() as nursery:
            for source in missing:
                nursery.start_soon(fetch, source)
    fetcher.done.set()
