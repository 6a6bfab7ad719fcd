"""The session half: connections and what was fetched, made at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_web.fetching import Fetcher
    from hilum_web.searching import Searcher
    from hilum_web.settings import WebSettings


class Web:
    """What one session knows of the web.

    Args:
        settings: As they hold for its workspace.
    """

    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self._fetcher: Fetcher | None = None
        self._searcher: Searcher | None = None

    @property
    def fetcher(self) -> Fetcher:
        """Fetches pages."""
        if self._fetcher is None:
            from hilum_web.fetching import Fetcher

            self._fetcher = Fetcher(self.settings)
        return self._fetcher

    @property
    def searcher(self) -> Searcher:
        """Searches."""
        if self._searcher is None:
            from hilum_web.searching import Searcher

            self._searcher = Searcher(self.settings)
        return self._searcher

    async def aclose(self) -> None:
        """Close all connections."""
        for each in (self._fetcher, self._searcher):
            if each is not None:
                await each.aclose()
