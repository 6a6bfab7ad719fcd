"""A regression of hilum: a search is so slow that its time limit ends it after a few matches."""

from hilum import Session, hookimpl
from hilum_search.content_search import _ContentSearch
from hilum_search.settings import SearchSettings

SHOWN = 2

_run = _ContentSearch.run


async def run_late(self: _ContentSearch) -> None:
    await _run(self)
    self._settings = SearchSettings(limit=SHOWN)
    self.late = True


@hookimpl
def open_session(session: Session) -> None:
    _ContentSearch.run = run_late  # type: ignore[method-assign]
