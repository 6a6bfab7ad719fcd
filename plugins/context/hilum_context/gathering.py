"""Gathers the context for a prompt from all sources.

First, all sources search concurrently, each isolated and with a time limit. Then the sources create
pieces within the budget, in order of importance.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import trio
from hilum import Agent, Block, ContentPolicy, ContextRequest, Text, UserMessage

from hilum_context.gathered_context import ContextSource, GatheredContext, make_loggable
from hilum_context.git import GitStatusReader
from hilum_context.pieces import TAGS, ContextPiece
from hilum_context.settings import ContextSettings
from hilum_context.sources import SOURCES
from hilum_context.state import WorkspaceState
from hilum_context.texts import FileTexts

# Minimum size, in tokens, of a piece that is not sent again while the conversation still contains
# it.
MIN_REPEATED_TOKENS = 100
UNCHANGED = "[Unchanged since an earlier message. Read the file if you no longer see it.]"
# Maximum value for the setting ``context.timeout``, because the hook has a deadline of ten seconds.
MAX_SOURCE_SECONDS = 8.0
# Maximum number of omissions that the event lists.
MAX_OMITTED = 50


class SourceReport(msgspec.Struct, eq=False):
    """The result of one source.

    Args:
        ms: Search time in milliseconds.
        error: The reason for its failure; empty if it succeeded.
        timed_out: Whether it failed because it took too long.
        pieces: The pieces that the source created.
    """

    ms: float = 0.0
    error: str = ""
    timed_out: bool = False
    pieces: list[ContextPiece] = msgspec.field(default_factory=list)

    def facts(self) -> dict[str, object]:
        """Return the facts that the event contains."""
        return {"ms": round(self.ms, 1), "error": self.error}


class GatheringResult(msgspec.Struct, frozen=True):
    """The gathered context.

    Args:
        blocks: The blocks for the kernel.
        data: The data for the event.
        whole: The hash of each file that is sent in full, keyed by path.
    """

    blocks: list[Block]
    data: dict[str, Any]
    whole: dict[str, str]


async def gather(
    agent: Agent,
    request: ContextRequest,
    state: WorkspaceState,
    settings: ContextSettings,
    policy: ContentPolicy,
    git: GitStatusReader,
) -> GatheringResult:
    """Return the context for a prompt.

    Args:
        agent: The agent that receives the context.
        request: The kernel's request, with the prompt and the budget.
        state: The workspace state that the face sent.
        settings: The settings.
        policy: The policy that decides which files are sent, and removes secrets from all texts.
        git: The reader of the Git status.
    """
    began = time.perf_counter()
    budget = min(request.budget, settings.tokens or request.budget)
    context = GatheredContext(
        agent,
        request,
        state,
        settings,
        FileTexts(agent, policy),
        git,
        budget,
    )
    enabled = [kind for kind in SOURCES if getattr(settings, kind.switch)]
    sources: list[ContextSource[Any]] = [kind() for kind in enabled]
    reports = {source.type: SourceReport() for source in sources}
    found: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        for source in sources:
            nursery.start_soon(_find, source, context, reports[source.type], found)
    # Earlier blocks are searched for only once, because the conversation may be long.
    earlier = _find_earlier(agent)
    # The most important source comes first, because each source uses up a part of the budget.
    for source in sources:
        if source.type not in found:
            continue
        report = reports[source.type]
        with _isolate(report):
            for piece in source.make_pieces(context, found[source.type]):
                _add_piece(context, piece, earlier, report)
    return _make_result(context, budget, reports, _milliseconds_since(began))


def _milliseconds_since(began: float) -> float:
    return 1e3 * (time.perf_counter() - began)


async def _find(
    source: ContextSource[Any],
    context: GatheredContext,
    report: SourceReport,
    found: dict[str, Any],
) -> None:
    began = time.perf_counter()
    limit = min(context.settings.timeout, MAX_SOURCE_SECONDS)
    # The time limit is inside `_isolate`, so that a source that fails while it is being cancelled
    # is still isolated.
    with _isolate(report), trio.move_on_after(limit):
        found[source.type] = await source.find(context)
    report.ms = _milliseconds_since(began)
    if source.type not in found and not report.error:
        report.error = f"it took longer than {limit:g} s"
        report.timed_out = True


@contextmanager
def _isolate(report: SourceReport) -> Iterator[None]:
    """Record an exception of a source in the source's report, so that the others continue."""
    try:
        yield
    # Do not catch BaseException: a cancellation of the run must propagate.
    except Exception as error:
        # trio wraps the exception in a group; show the user the cause.
        inner: BaseException = error
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        report.error = make_loggable(f"{type(inner).__name__}: {inner}")


def _add_piece(
    context: GatheredContext,
    piece: ContextPiece,
    earlier: dict[tuple[str, str], str],
    report: SourceReport,
) -> None:
    """Add a piece if it fits, or a notice if the conversation already contains the piece.

    An unchanged environment needs no notice, because every prompt has one.
    """
    block = piece.block()
    before = earlier.get((block.type, block.path), "")
    # The opening tag is not compared: its line number may differ.
    is_repeated = before.endswith(f">\n{block.text}\n</{block.type}>")
    if is_repeated and piece.type == "environment":
        return
    if is_repeated and piece.tokens >= MIN_REPEATED_TOKENS:
        piece = msgspec.structs.replace(piece, text=UNCHANGED)
    if piece.tokens > context.tokens_left:
        # This is not an error: a smaller piece from a less important source may still fit.
        context.omit(piece.type, piece.path, "no tokens are left for it")
        return
    context.tokens_left -= piece.tokens
    if piece.lines:
        context.covered[piece.path] = piece.lines
    report.pieces.append(piece)


def _find_earlier(agent: Agent) -> dict[tuple[str, str], str]:
    """Return the conversation's last block for each tag and path.

    Notices that replace unchanged blocks are ignored.
    """
    found = {}
    tags = {f"context:{tag}": tag for tag in TAGS.values()}
    for part in _find_texts(agent):
        # Tag and notice are at the beginning; the rest may be megabytes long.
        head = part.text[:5_000]
        if part.source not in tags or UNCHANGED in head:
            continue
        first_line = head.partition("\n")[0]
        after_name = first_line.partition(' path="')[2]
        path = _unescape(after_name.partition('"')[0])
        found[tags[part.source], path] = part.text
    return found


def _unescape(path: str) -> str:
    """Return a path as it was before the kernel escaped it in a tag."""
    from html import unescape  # the import takes 1 ms, which the first request need not wait for

    return unescape(path)


def _find_texts(agent: Agent) -> Iterator[Text]:
    for message in agent.conversation.messages:
        if isinstance(message, UserMessage):
            yield from (part for part in message.parts if isinstance(part, Text))


def _make_result(
    context: GatheredContext,
    budget: int,
    reports: dict[str, SourceReport],
    ms: float,
) -> GatheringResult:
    pieces = [piece for report in reports.values() for piece in report.pieces]
    data: dict[str, Any] = {
        "blocks": [piece.about() for piece in pieces],
        "tokens": sum(piece.tokens for piece in pieces),
        "budget": budget,
        "ms": round(ms, 1),
        "sources": {name: report.facts() for name, report in reports.items()},
        "left_out": [each.facts() for each in context.omitted[:MAX_OMITTED]],
        "left_out_more": max(len(context.omitted) - MAX_OMITTED, 0),
    }
    message = _describe_problems(context, reports)
    if message:
        data["say"] = message
    whole = {piece.path: piece.hash for piece in pieces if piece.hash}
    return GatheringResult([piece.block() for piece in pieces], data, whole)


def _describe_problems(context: GatheredContext, reports: dict[str, SourceReport]) -> str:
    """Return a message to the user about missing context; empty if there is nothing to report."""
    problems = list(dict.fromkeys(_find_problems(context, reports)))
    if not problems:
        return ""
    lines = ["Some context could not be gathered:", *problems[:10]]
    return "\n  ".join(lines)


def _find_problems(context: GatheredContext, reports: dict[str, SourceReport]) -> Iterator[str]:
    """Yield a line for each omitted file that the face named, and for each failed source."""
    for each in context.omitted:
        if each.named:  # the user expects the model to see such a file
            yield make_loggable(f"{each.path or each.type}: {each.why}")
    for name, report in reports.items():
        # A slow machine is no problem of the user's; the log has the source that was left out.
        if report.error and not report.timed_out:
            yield f"{name}: {report.error}"
