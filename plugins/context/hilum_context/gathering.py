"""Gathers: all sources look at once, each alone and for a limited time.

Then they give, best first, within the budget.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

import msgspec
import trio
from hilum import Agent, Block, ContextRequest, Text, UserMessage

from hilum_context.git import Git
from hilum_context.look import Look, Source
from hilum_context.pieces import TAGS, Piece
from hilum_context.settings import ContextSettings
from hilum_context.sources import SOURCES
from hilum_context.state import WorkspaceState
from hilum_context.texts import Texts

REPEATED = 100
"""Tokens from which on a piece is not sent again while the conversation still has it."""
AGAIN = (
    "[Unchanged since it came with an earlier message. Read the file if you do not see it any"
    " more.]"
)
LONGEST = 8.0
"""Most seconds of a source, whatever the setting says: the hook's deadline is ten."""
TOLD = 50
"""Things left out that are told."""


class Report(msgspec.Struct, eq=False):
    """How a source did.

    Args:
        ms: Milliseconds that it looked.
        error: Why it failed, empty if it did not.
        pieces: What it gave.
    """

    ms: float = 0.0
    error: str = ""
    pieces: list[Piece] = msgspec.field(default_factory=list)


class Gathered(msgspec.Struct, frozen=True):
    """What came of it.

    Args:
        blocks: For the kernel.
        data: For the event.
        whole: The hash of each file of which all is sent, by path.
    """

    blocks: list[Block]
    data: dict[str, Any]
    whole: dict[str, str]


async def gather(
    agent: Agent, request: ContextRequest, state: WorkspaceState, settings: ContextSettings
) -> Gathered:
    """Gather what goes with a prompt.

    Args:
        agent: Who gets it.
        request: What the prompt asks for.
        state: What the face said.
        settings: The settings.
    """
    began = time.perf_counter()
    budget = min(request.budget, settings.tokens or request.budget)
    look = Look(agent, request, state, settings, Texts(agent), Git(agent.session), budget)
    sources: list[Source[Any]] = [kind() for kind in SOURCES if getattr(settings, kind.switch)]
    reports = {source.type: Report() for source in sources}
    found: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        for source in sources:
            nursery.start_soon(_find, source, look, reports[source.type], found)
    earlier = _earlier(agent)
    for source in sources:
        if source.type in found:
            with _alone(reports[source.type]):
                for piece in source.give(look, found[source.type]):
                    _take(look, piece, earlier, reports[source.type])
    return _gathered(look, budget, reports, 1e3 * (time.perf_counter() - began))


async def _find(source: Source[Any], look: Look, report: Report, found: dict[str, Any]) -> None:
    began = time.perf_counter()
    limit = min(look.settings.timeout, LONGEST)
    with _alone(report), trio.move_on_after(limit):
        found[source.type] = await source.find(look)
    report.ms = 1e3 * (time.perf_counter() - began)
    if source.type not in found and not report.error:
        report.error = f"it took longer than {limit:g} s"


@contextmanager
def _alone(report: Report) -> Iterator[None]:
    """Whatever a source raises is its own affair."""
    try:
        yield
    except Exception as error:
        inner: BaseException = error
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        report.error = _written(f"{type(inner).__name__}: {inner}")


def _take(look: Look, piece: Piece, earlier: dict[tuple[str, str], str], report: Report) -> None:
    """Take a piece if it fits; in place of one that the conversation has already, say so."""
    block = piece.block()
    if piece.tokens >= REPEATED and earlier.get((block.type, block.path), "").endswith(
        f">\n{block.text}\n</{block.type}>"
    ):
        piece = msgspec.structs.replace(piece, text=AGAIN)
    if piece.tokens > look.left:
        look.leave_out(piece.type, piece.path, "no tokens are left for it")
        return
    look.left -= piece.tokens
    if piece.lines:
        look.covered[piece.path] = piece.lines
    report.pieces.append(piece)


def _earlier(agent: Agent) -> dict[tuple[str, str], str]:
    """Return the blocks that the conversation has, by tag and path: of each the last one that is no
    mere pointer.
    """
    found = {}
    tags = {f"context:{tag}": tag for tag in TAGS.values()}
    for message in agent.conversation.messages:
        for part in message.parts if isinstance(message, UserMessage) else ():
            if isinstance(part, Text) and part.source in tags and AGAIN not in part.text[:5_000]:
                path = (
                    part.text[:5_000].partition("\n")[0].partition(' path="')[2].partition('"')[0]
                )
                found[tags[part.source], unescape(path)] = part.text
    return found


def _written(text: str) -> str:
    """Return a short text that the log can hold: names of files need not be Unicode."""
    return text[:300].encode(errors="backslashreplace").decode()


def _gathered(look: Look, budget: int, reports: dict[str, Report], ms: float) -> Gathered:
    pieces = [piece for report in reports.values() for piece in report.pieces]
    left_out = [
        {"type": left.type, "path": _written(left.path), "why": _written(left.why)}
        for left in look.left_out
    ]
    data: dict[str, Any] = {
        "blocks": [piece.about() for piece in pieces],
        "tokens": sum(piece.tokens for piece in pieces),
        "budget": budget,
        "ms": round(ms, 1),
        "sources": {
            name: {"ms": round(report.ms, 1), "error": report.error}
            for name, report in reports.items()
        },
        "left_out": left_out[:TOLD],
        "left_out_more": max(len(left_out) - TOLD, 0),
    }
    said = dict.fromkeys(
        _written(f"{left.path or left.type}: {left.why}") for left in look.left_out if left.said
    )
    said |= dict.fromkeys(
        f"{name}: {report.error}" for name, report in reports.items() if report.error
    )
    if said:
        data["say"] = "\n  ".join(["Not all of the context could be gathered:", *list(said)[:10]])
    whole = {piece.path: piece.hash for piece in pieces if piece.hash}
    return Gathered([piece.block() for piece in pieces], data, whole)
