"""The session plugin, which holds the connections and caches for pages and searches."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hilum import Session, ToolError, errors

if TYPE_CHECKING:
    from hilum_web.pages import Pages
    from hilum_web.search_providers import Searcher
    from hilum_web.settings import WebSettings


class Web:
    """The pages and searches of one session, with their connections and caches.

    Args:
        settings: The settings of the session's workspace.
    """

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings

    @classmethod
    def of(cls, session: Session) -> Web:
        """Return the plugin instance of a session.

        Raises:
            ToolError: The session has no such plugin.
        """
        web = session.plugin(cls)
        if web is None:
            raise ToolError(
                "The plugin hilum-web is not open in this session.", code=errors.E_PLUGIN
            )
        return web

    # The page reader and the searcher are created on first use, because httpx takes 100 ms to
    # import.

    @cached_property
    def pages(self) -> Pages:
        """The page reader behind ``web_fetch``."""
        from hilum_web.pages import Pages

        return Pages(self._settings)

    @cached_property
    def searcher(self) -> Searcher:
        """The search behind ``web_search``."""
        from hilum_web.search_providers import Searcher

        return Searcher(self._settings)

    async def aclose(self) -> None:
        """Close all connections."""
        for name in ("pages", "searcher"):
            if name in self.__dict__:
                await getattr(self, name).aclose()
