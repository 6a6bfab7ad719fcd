"""Notifies clients about changes, in both versions of the protocol.

The notifications cover the lists of tools, prompts and sessions, and the content of sessions. There
is no event when an agent or skill file is written, or when another process works in the folder, so
the state is polled while a client is listening.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import attrs
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

# Seconds between two polls.
POLL_INTERVAL = 2.0

# Seconds between two polls after a client's call.
MIN_INTERVAL = 0.2

# Seconds that a client of the older protocol may take to read a notification. A slower client is
# dropped.
SEND_TIMEOUT = 1.0


@attrs.define(eq=False)
class PolledState:
    """The state at the time of one poll.

    Args:
        tools: The list of tools.
        prompts: The list of prompts.
        resources: The title and state of each resource, by its URI. Titles are part of the list of
            resources.
    """

    tools: object
    prompts: object
    resources: dict[str, tuple[str, object]]

    def compare(self, before: PolledState) -> list[ServerEvent]:
        """Return the changes since an earlier poll."""
        events: list[ServerEvent] = []
        if self.tools != before.tools:
            events.append(ToolsListChanged())
        if self.prompts != before.prompts:
            events.append(PromptsListChanged())
        if self._titles() != before._titles():
            events.append(ResourcesListChanged())
        for uri, state in self.resources.items():
            if uri in before.resources and before.resources[uri] != state:
                events.append(ResourceUpdated(uri))
        return events

    def _titles(self) -> dict[str, str]:
        return {uri: title for uri, (title, _) in self.resources.items()}


class Notifications:
    """A notifier that reports changes to the clients that listen for them.

    Args:
        poll: A function that returns the current state.
    """

    def __init__(self, poll: Callable[[], Awaitable[PolledState]]) -> None:
        self._poll = poll
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._streams = 0
        self._subscriptions: dict[Connection, set[str]] = {}
        self._has_client = trio.Event()
        self._woken = trio.Event()

    # --- the clients ------------------------------------------------------------------------------

    async def listen(
        self,
        ctx: Context,
        params: t.SubscriptionsListenRequestParams,
    ) -> t.SubscriptionsListenResult:
        """Serve a stream of notifications until the client closes it."""
        self._streams += 1
        self._has_client.set()
        try:
            return await self._listen(ctx, params)
        finally:
            self._streams -= 1

    def close(self) -> None:
        """End all streams."""
        self._listen.close()

    async def add_client(self, ctx: Context, params: t.NotificationParams) -> None:
        """Add a client of the older protocol, which receives list changes without subscribing."""
        self._subscriptions_of(ctx)

    async def subscribe(self, ctx: Context, params: t.SubscribeRequestParams) -> t.EmptyResult:
        """Subscribe a client of the older protocol to a resource."""
        self._subscriptions_of(ctx).add(str(params.uri))
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        """Unsubscribe a client of the older protocol from a resource."""
        self._subscriptions_of(ctx).discard(str(params.uri))
        return t.EmptyResult()

    def _subscriptions_of(self, ctx: Context) -> set[str]:
        connection = ctx.session._connection  # the SDK provides no public access to the connection
        if connection not in self._subscriptions:
            self._subscriptions[connection] = set()
            connection.exit_stack.callback(self._subscriptions.pop, connection, None)
            self._has_client.set()
        return self._subscriptions[connection]

    # --- polling ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Poll soon, because a call may have changed something."""
        self._woken.set()

    async def watch(self) -> None:
        """Poll and send notifications until cancelled."""
        before: PolledState | None = None
        while True:
            if not self._streams and not self._subscriptions:
                # Changes that happen while no client is listening are not reported afterwards.
                before = None
                self._has_client = trio.Event()
                await self._has_client.wait()
            try:
                now = await self._poll()
            except (HilumError, OSError):
                pass  # a client that requests the list receives the error
            else:
                for event in now.compare(before) if before is not None else ():
                    await self._send(event)
                before = now
            await trio.sleep(min(MIN_INTERVAL, POLL_INTERVAL))
            with trio.move_on_after(POLL_INTERVAL):
                await self._woken.wait()
            self._woken = trio.Event()

    async def _send(self, event: ServerEvent) -> None:
        await self._bus.publish(event)
        for connection, addresses in list(self._subscriptions.items()):
            with trio.move_on_after(SEND_TIMEOUT):
                match event:
                    case ToolsListChanged():
                        await connection.send_tool_list_changed()
                    case PromptsListChanged():
                        await connection.send_prompt_list_changed()
                    case ResourcesListChanged():
                        await connection.send_resource_list_changed()
                    case ResourceUpdated(uri=uri) if uri in addresses:
                        await connection.send_resource_updated(uri)
