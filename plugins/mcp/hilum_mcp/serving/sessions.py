"""Offers the folder's sessions as resources: a list, and a redacted transcript of each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import mcp_types as t
from hilum import StoreError
from mcp import MCPError
from trio.to_thread import run_sync as in_thread

from hilum_mcp.serving.transcript import make_transcript

if TYPE_CHECKING:
    from hilum import Session
    from hilum.events import AnyEvent
    from hilum.store import SessionInfo

ROOT = "hilum://sessions"
TEMPLATE = f"{ROOT}/{{id}}"
PAGE = 50
MAX_COMPLETIONS = 100  # the protocol's limit
MAX_CURSOR = 9  # digits
MAX_TITLE = 200
JSON = "application/json"
MARKDOWN = "text/markdown"


class SessionResources:
    """The sessions that are offered as resources. Sessions of other folders are not visible.

    Args:
        session: The server's own session, which determines the folder.
        redact: A function that replaces secrets.
    """

    def __init__(self, session: Session, redact: Callable[[str], str]) -> None:
        self._session = session
        self._redact = redact

    async def _load_infos(self) -> Sequence[SessionInfo]:
        return await self._session.kernel.store.list(str(self._session.workspace.root))

    async def list_resources(
        self,
        ctx: Any,
        params: t.PaginatedRequestParams | None,
    ) -> t.ListResourcesResult:
        """Handle ``resources/list``. The most recently used session comes first.

        Raises:
            MCPError: The cursor was not issued by this server.
        """
        cursor = params.cursor if params is not None and params.cursor else "0"
        if not cursor.isascii() or not cursor.isdigit() or len(cursor) > MAX_CURSOR:
            raise MCPError(t.INVALID_PARAMS, "The cursor was not issued by this server.")
        start = int(cursor)
        infos = await self._load_infos()
        end = start + PAGE
        resources = [_make_resource(info, self._redact) for info in infos[start:end]]
        if start == 0:
            resources.insert(0, _make_list_resource())
        next_cursor = str(end) if end < len(infos) else None
        return t.ListResourcesResult(resources=resources, next_cursor=next_cursor)

    async def list_templates(
        self,
        ctx: Any,
        params: t.PaginatedRequestParams | None,
    ) -> t.ListResourceTemplatesResult:
        """Handle ``resources/templates/list``."""
        template = t.ResourceTemplate(
            uri_template=TEMPLATE,
            name="session",
            title="Session",
            description="The transcript of a session, turn by turn. A unique prefix of the ID is "
            "sufficient.",
            mime_type=MARKDOWN,
        )
        return t.ListResourceTemplatesResult(resource_templates=[template])

    async def poll(self) -> dict[str, tuple[str, object]]:
        """Return the title and state of each resource, including the list of sessions, by URI."""
        infos = await self._load_infos()
        found: dict[str, tuple[str, object]] = {
            f"{ROOT}/{info.id}": (info.title, (info.events, info.state)) for info in infos
        }
        return {ROOT: ("", dict(found)), **found}

    async def complete(self, ctx: Any, params: t.CompleteRequestParams) -> t.CompleteResult:
        """Handle ``completion/complete``: complete the ID of a session."""
        ids: list[str] = []
        if isinstance(params.ref, t.ResourceTemplateReference) and params.ref.uri == TEMPLATE:
            prefix = params.argument.value
            ids = [info.id for info in await self._load_infos() if info.id.startswith(prefix)]
        completion = t.Completion(
            values=ids[:MAX_COMPLETIONS],
            total=len(ids),
            has_more=len(ids) > MAX_COMPLETIONS,
        )
        return t.CompleteResult(completion=completion)

    async def read_resource(
        self,
        ctx: Any,
        params: t.ReadResourceRequestParams,
    ) -> t.ReadResourceResult:
        """Handle ``resources/read``: return the list, or a transcript.

        Raises:
            MCPError: There is no such resource.
        """
        uri = str(params.uri)
        if uri.rstrip("/") == ROOT:
            rows = [_encode_info(info) for info in await self._load_infos()]
            text = json.dumps(rows, ensure_ascii=False, indent=1)
            kind = JSON
        else:
            text = await self._read_transcript(uri)
            kind = MARKDOWN
        # The transcript is redacted in a thread, because a long transcript takes a while.
        redacted = await in_thread(self._redact, text)
        content = t.TextResourceContents(uri=uri, mime_type=kind, text=redacted)
        return t.ReadResourceResult(contents=[content])

    async def _read_transcript(self, uri: str) -> str:
        wanted = uri.removeprefix(f"{ROOT}/")
        # Only the IDs of this folder's sessions are searched, so that a client cannot find out
        # whether another folder has a session with this ID.
        infos = await self._load_infos()
        matching = [info for info in infos if wanted and info.id.startswith(wanted)]
        exact = [info for info in matching if info.id == wanted] or matching
        if not uri.startswith(f"{ROOT}/") or len(exact) != 1:
            raise MCPError(t.INVALID_PARAMS, f"There is no resource {uri}.", {"uri": uri})
        try:
            events = await self._read_events(exact[0].id)
        except StoreError as error:
            raise MCPError(
                t.INTERNAL_ERROR,
                f"The session cannot be read: {error.message}",
                {"uri": uri},
            ) from None
        return await in_thread(make_transcript, exact[0], events)

    async def _read_events(self, session: str) -> list[AnyEvent]:
        store = self._session.kernel.store
        events: list[AnyEvent] = []
        while page := await store.read(session, events[-1].seq if events else 0):
            events += page
        return events


def _make_list_resource() -> t.Resource:
    return t.Resource(
        uri=ROOT,
        name="sessions",
        title="Sessions",
        description="The sessions of this folder, most recently used first.",
        mime_type=JSON,
    )


def _encode_info(info: SessionInfo) -> dict[str, object]:
    return {
        "id": info.id,
        "uri": f"{ROOT}/{info.id}",
        "title": info.title,
        "state": info.state,
        "events": info.events,
        "created": _format_time(info.created),
        "updated": _format_time(info.updated),
    }


def _make_resource(info: SessionInfo, redact: Callable[[str], str]) -> t.Resource:
    title = " ".join(info.title.split())
    title = redact(title)[:MAX_TITLE] or "(no title)"
    state = info.state.replace("_", " ")
    description = f"{state}, {info.events} events, last used {_format_time(info.updated)}"
    return t.Resource(
        uri=f"{ROOT}/{info.id}",
        name=info.id,
        title=title,
        description=description,
        mime_type=MARKDOWN,
    )


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
