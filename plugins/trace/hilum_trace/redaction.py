"""Removal of secrets and of single characters from traces.

Older logs, and logs that were written without the plugin ``guard``, may contain keys. A key is only
recognized as a whole, so texts are searched before they are shortened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hilum import make_redactor

from hilum_trace.spans import MARGIN, Span, Trace

TextFilter = Callable[[str], str]


class TextRedactor:
    """Replaces the secrets in texts, of which many occur more than once, such as names of tools.

    Args:
        redact: The function that replaces secrets; by default, the one of the plugin ``guard``.
    """

    def __init__(self, redact: TextFilter | None = None) -> None:
        self._redact = redact or _make_redact()
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """Return a text without secrets."""
        if len(text) > MARGIN:
            return self._redact(text)
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._redact(text)
        return known


def _make_redact() -> TextFilter:
    redact: Callable[..., str] = make_redactor()
    # A guess would also replace ordinary words, and the reader cannot look up the original.
    return lambda text: redact(text, guess=False)


def change_texts(trace: Trace, change: TextFilter) -> None:
    """Change all texts of a trace.

    Args:
        trace: The trace. To remove secrets, it must have been folded with the same function (see
            ``SpanFold``), because the fold shortens some texts.
        change: Returns the text that replaces a text, for example without secrets.
    """
    trace.session = change(trace.session)
    trace.unknown = {change(name): count for name, count in trace.unknown.items()}
    for span in trace.spans:
        _change_span(span, change)


def _change_span(span: Span, change: TextFilter) -> None:
    span.name = change(span.name)
    span.agent = change(span.agent)
    span.message = change(span.message)
    span.error = change(span.error)
    span.facts = {key: _change_value(value, change) for key, value in span.facts.items()}
    for attempt in span.attempts:
        attempt.model = change(attempt.model)
        attempt.message = change(attempt.message)
    for found in span.breaks:
        found.changed = {change(name): what for name, what in found.changed.items()}


def _change_value(value: Any, change: TextFilter) -> Any:
    """Return a fact, which is plain data, with changed texts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_change_value(each, change) for each in value]
    return value
