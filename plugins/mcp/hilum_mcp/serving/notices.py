"""Notices of what has changed, in both eras: the lists of tools, prompts and sessions, and sessions
that go on.

Nothing tells that a file of an agent or a skill was written, or that another process works in the
folder. So what is there is looked at now and then, while a client is there that may be told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import mcp_types as t
import trio
from hilum import HilumError
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext
    from mcp.shared.subscriptions import ServerEvent

    Context = ServerRequestContext[Any, Any]

PERIOD = 2.0
LEAST = 0.2
"""Seconds between two looks when something has been done here."""
PATIENCE = 1.0
"""Seconds that a client of the older era may take to read a notice, before it goes without."""


class Seen:
    """What there was at a look.

    Args:
        tools: The list of tools, as clients get it.
        prompts: The list of prompts.
        resources: What changes at each resource, by its address; under its title, for that shows in
            the list.
    """

    def __init__(
        self, tools: object, prompts: object, resources: dict[str, tuple[str, object]]
    ) -> None:
        self.tools = tools
        self.prompts = prompts
        self.resources = resources

    def since(self, before: Seen) -> list[ServerEvent]:
        """Tell what differs from an earlier look."""
        found: list[ServerEvent] = []
        if self.tools != before.tools:
            found.append(ToolsListChanged())
        if self.prompts != before.prompts:
            found.append(PromptsListChanged())
        if self._listed() != before._listed():
            found.append(ResourcesListChanged())
        known = before.resources
        found += [
            ResourceUpdated(uri)
            for uri, now in self.resources.items()
            if uri in known and known[uri] != now
        ]
        return found

    def _listed(self) -> dict[str, str]:
        return {uri: title for uri, (title, _) in self.resources.items()}


class Notices:
    """See the module.

    Args:
        look: Looks at what is there.
    """

    def __init__(self, look: Callable[[], Awaitable[Seen]]) -> None:
        self._look = look
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._streams = 0
        self._older: dict[Connection, set[str]] = {}
        self._wanted = trio.Event()
        self._news = trio.Event()

    # --- who is told ------------------------------------------------------------------------------

    async def listen(
        self, ctx: Context, params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        """Serve a stream of notices, until the client closes it."""
        self._streams += 1
        self._wanted.set()
        try:
            return await self._listen(ctx, params)
        finally:
            self._streams -= 1

    def close(self) -> None:
        """End the streams."""
        self._listen.close()

    async def joined(self, ctx: Context, params: t.NotificationParams) -> None:
        """Take in a client of the older era, which is told of lists without asking."""
        self._addresses(ctx)

    async def subscribe(self, ctx: Context, params: t.SubscribeRequestParams) -> t.EmptyResult:
        """Tell a client of the older era when a resource changes."""
        self._addresses(ctx).add(str(params.uri))
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        """Tell it no more."""
        self._addresses(ctx).discard(str(params.uri))
        return t.EmptyResult()

    def _addresses(self, ctx: Context) -> set[str]:
        connection = ctx.session._connection  # a handler is given no other way to it
        if connection not in self._older:
            self._older[connection] = set()
            connection.exit_stack.callback(self._older.pop, connection, None)
            self._wanted.set()
        return self._older[connection]

    # --- telling ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look soon: something was done here."""
        self._news.set()

    async def watch(self) -> None:
        """Look, and tell; for ever."""
        before: Seen | None = None
        while True:
            if not self._streams and not self._older:
                before = None
                self._wanted = trio.Event()
                await self._wanted.wait()
            try:
                now = await self._look()
            except (HilumError, OSError):  # told to whoever asks for the list
                pass
            else:
                for event in now.since(before) if before is not None else ():
                    await self._tell(event)
                before = now
            await trio.sleep(min(LEAST, PERIOD))
            with trio.move_on_after(PERIOD):
                await self._news.wait()
            self._news = trio.Event()

    async def _tell(self, event: ServerEvent) -> None:
        await self._bus.publish(event)
        for connection, addresses in list(self._older.items()):
            with trio.move_on_after(PATIENCE):
                match event:
                    case ToolsListChanged():
                        await connection.send_tool_list_changed()
                    case PromptsListChanged():
                        await connection.send_prompt_list_changed()
                    case ResourcesListChanged():
                        await connection.send_resource_list_changed()
                    case ResourceUpdated(uri=uri) if uri in addresses:
                        await connection.send_resource_updated(uri)
