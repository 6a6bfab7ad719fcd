"""The sources of context, the most important first."""

from __future__ import annotations

from typing import Any

from hilum_context.gathered_context import ContextSource
from hilum_context.sources.cursor import AroundCursor
from hilum_context.sources.environment import Environment
from hilum_context.sources.linter import LinterErrors
from hilum_context.sources.open_files import OpenFiles
from hilum_context.sources.recent import RecentEdits
from hilum_context.sources.search import SearchResults
from hilum_context.sources.terminal import Terminal

SOURCES: tuple[type[ContextSource[Any]], ...] = (
    Environment,
    OpenFiles,
    AroundCursor,
    LinterErrors,
    Terminal,
    RecentEdits,
    SearchResults,
)
