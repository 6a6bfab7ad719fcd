"""The sessions of the folder as resources: a list, and each as a transcript without secrets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import mcp_types as t
import trio
from hilum import StoreError
from mcp import MCPError

from hilum_mcp.serving.transcript import transcript

if TYPE_CHECKING:
    from hilum import Session
    from hilum.events import AnyEvent
    from hilum.store import SessionInfo

ROOT = "hilum://sessions"
TEMPLATE = f"{ROOT}/{{id}}"
PAGE = 50
MOST_COMPLETED = 100  # as the protocol has it
JSON = "application/json"
MARKDOWN = "text/markdown"


class Sessions:
    """See the module. Sessions of other folders are not there.

    Args:
        session: The server's own session, whose folder counts.
        redact: Replaces secrets.
    """

    def __init__(self, session: Session, redact: Callable[[str], str]) -> None:
        self._session = session
        self._redact = redact

    async def _infos(self) -> Sequence[SessionInfo]:
        return await self._session.kernel.store.list(str(self._session.workspace.root))

    async def list_resources(
        self, ctx: Any, params: t.PaginatedRequestParams | None
    ) -> t.ListResourcesResult:
        """List them, last used first.

        Raises:
            MCPError: The cursor is none of ours.
        """
        cursor = params.cursor if params is not None and params.cursor else "0"
        if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:
            raise MCPError(t.INVALID_PARAMS, "The cursor is not one that this server gave.")
        start = int(cursor)
        infos = await self._infos()
        found = [_described(info, self._redact) for info in infos[start : start + PAGE]]
        if start == 0:
            about = "The sessions of this folder, last used first."
            found.insert(
                0,
                t.Resource(
                    uri=ROOT, name="sessions", title="Sessions", description=about, mime_type=JSON
                ),
            )
        more = str(start + PAGE) if start + PAGE < len(infos) else None
        return t.ListResourcesResult(resources=found, next_cursor=more)

    async def list_templates(
        self, ctx: Any, params: t.PaginatedRequestParams | None
    ) -> t.ListResourceTemplatesResult:
        """Return the form of their addresses."""
        about = (
            "What was said and done in a session, turn by turn. The id may be the beginning of one."
        )
        template = t.ResourceTemplate(
            uri_template=TEMPLATE,
            name="session",
            title="Session",
            description=about,
            mime_type=MARKDOWN,
        )
        return t.ListResourceTemplatesResult(resource_templates=[template])

    async def state(self) -> dict[str, tuple[str, object]]:
        """Return title and state by address; the list itself is one of them."""
        infos = await self._infos()
        found: dict[str, tuple[str, object]] = {
            f"{ROOT}/{info.id}": (info.title, (info.events, info.state)) for info in infos
        }
        return {ROOT: ("", dict(found)), **found}

    async def complete(self, ctx: Any, params: t.CompleteRequestParams) -> t.CompleteResult:
        """Complete the id in the address of a session."""
        found = []
        if isinstance(params.ref, t.ResourceTemplateReference) and params.ref.uri == TEMPLATE:
            found = [
                info.id for info in await self._infos() if info.id.startswith(params.argument.value)
            ]
        most = found[:MOST_COMPLETED]
        return t.CompleteResult(
            completion=t.Completion(values=most, total=len(found), has_more=len(found) > len(most))
        )

    async def read_resource(
        self, ctx: Any, params: t.ReadResourceRequestParams
    ) -> t.ReadResourceResult:
        """Read the list, or one of them.

        Raises:
            MCPError: There is no such resource.
        """
        uri = str(params.uri)
        if uri.rstrip("/") == ROOT:
            rows = [_row(info) for info in await self._infos()]
            text = json.dumps(rows, ensure_ascii=False, indent=1)
            kind = JSON
        else:
            text = await self._transcript(uri)
            kind = MARKDOWN
        safe = await trio.to_thread.run_sync(self._redact, text)
        return t.ReadResourceResult(
            contents=[t.TextResourceContents(uri=uri, mime_type=kind, text=safe)]
        )

    async def _transcript(self, uri: str) -> str:
        wanted = uri.removeprefix(f"{ROOT}/")
        # Only ids of this folder are looked for, so that nothing tells whether another one is
        # there.
        matching = [info for info in await self._infos() if wanted and info.id.startswith(wanted)]
        exact = [info for info in matching if info.id == wanted] or matching
        if not uri.startswith(f"{ROOT}/") or len(exact) != 1:
            raise MCPError(t.INVALID_PARAMS, f"There is no resource {uri}.", {"uri": uri})
        try:
            events = await self._events(exact[0].id)
        except StoreError as error:
            raise MCPError(
                t.INTERNAL_ERROR, f"The session cannot be read: {error.message}", {"uri": uri}
            ) from None
        return await trio.to_thread.run_sync(transcript, exact[0], events)

    async def _events(self, session: str) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        while page := await self._session.kernel.store.read(
            session, events[-1].seq if events else 0
        ):
            events += page
        return events


def _row(info: SessionInfo) -> dict[str, object]:
    return {
        "id": info.id,
        "uri": f"{ROOT}/{info.id}",
        "title": info.title,
        "state": info.state,
        "events": info.events,
        "created": _date(info.created),
        "updated": _date(info.updated),
    }


def _described(info: SessionInfo, redact: Callable[[str], str]) -> t.Resource:
    title = redact(" ".join(info.title.split()))[:200] or "(no title)"
    about = f"{info.state.replace('_', ' ')}, {info.events} events, last used {_date(info.updated)}"
    return t.Resource(
        uri=f"{ROOT}/{info.id}", name=info.id, title=title, description=about, mime_type=MARKDOWN
    )


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
