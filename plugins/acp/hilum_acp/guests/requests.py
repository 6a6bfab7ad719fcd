"""The requests of a guest that hilum answers with the results of tool calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import msgspec
import trio
from hilum.messages import ToolCall, ToolResult

from hilum_acp.guests.actions import FileDiff, GuestAction
from hilum_acp.guests.served_files import REFUSED
from hilum_acp.json_rpc import RpcError
from hilum_acp.messages import RESOURCE_NOT_FOUND

MAX_WAITING = 256
"""Requests of a guest that wait for their calls."""


@attrs.define(eq=False)
class GuestRequest:
    """A request of the guest that hilum answers with the result of a tool call.

    Attributes:
        call: The call.
        done: Set when the guest can be answered, or has cancelled the request.
        allowed: Whether the call may run; it is known when the call begins.
        result: The call's result, once it has ended.
        action: The guest's own tool call that the request is about, if there is one.
        announced: The changes that the user approves with the call, by resolved path.
        is_approved: Whether the user has approved the call when the guest announced it.
        is_withdrawn: Whether the guest has cancelled the request.
    """

    call: ToolCall
    done: trio.Event = attrs.field(factory=trio.Event)
    allowed: bool = False
    result: ToolResult | None = None
    action: GuestAction | None = None
    announced: dict[str, list[FileDiff]] = attrs.field(factory=dict)
    is_approved: bool = False
    is_withdrawn: bool = False


class RequestQueue:
    """The requests of one guest: first they wait, then hilum runs their calls.

    Args:
        on_added: Called when a request has been added.

    Attributes:
        refusal: Why no further requests are accepted; empty while they are.
    """

    def __init__(self, on_added: Callable[[], None]) -> None:
        self.refusal = ""
        self._on_added = on_added
        self._waiting: list[GuestRequest] = []
        self._running: dict[str, GuestRequest] = {}
        self._count = 0

    # --- as the guest sees it ---------------------------------------------------------------------

    def add(
        self, tool: str, arguments: Mapping[str, Any], action: GuestAction | None = None
    ) -> GuestRequest:
        """Add a request, whose call hilum runs next.

        Raises:
            RpcError: Too many requests wait, or the guest has failed.
        """
        if self.refusal:
            raise RpcError(REFUSED, self.refusal)
        if len(self._waiting) >= MAX_WAITING:
            raise RpcError(REFUSED, f"{MAX_WAITING} requests already wait.")
        request = GuestRequest(self.make_call(tool, arguments), action=action)
        self._waiting.append(request)
        self._on_added()
        return request

    async def wait(self, request: GuestRequest) -> None:
        """Wait until a request can be answered; if the guest cancels it, its call must not run."""
        try:
            await request.done.wait()
        except trio.Cancelled:
            request.is_withdrawn = True
            request.done.set()
            if request in self._waiting:
                self._waiting.remove(request)
            raise

    async def ask(
        self, tool: str, arguments: Mapping[str, Any], *, is_approved: bool = False
    ) -> ToolResult:
        """Run a call of hilum's for the guest and return its result.

        Raises:
            RpcError: The call was refused or failed.
        """
        request = self.add(tool, arguments)
        request.is_approved = is_approved
        await self.wait(request)
        assert request.result is not None
        if request.result.code:
            code = RESOURCE_NOT_FOUND if request.result.code == "E_FILE_NOT_FOUND" else REFUSED
            raise RpcError(code, request.result.text)
        return request.result

    # --- as hilum sees it -------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of requests that wait for their calls."""
        return len(self._waiting)

    def make_call(self, tool: str, arguments: Mapping[str, Any]) -> ToolCall:
        """Return a call of hilum's with an id of its own."""
        self._count += 1
        identity = f"guest-{self._count}-{os.urandom(3).hex()}"
        return ToolCall(identity, tool, msgspec.json.encode(arguments).decode())

    @property
    def call_count(self) -> int:
        """Number of calls so far, with which calls differ that are otherwise the same."""
        return self._count

    def drop_waiting(self, tool: str) -> None:
        """Drop the requests that wait for calls of a tool; nobody may wait for their results."""
        self._waiting = [each for each in self._waiting if each.call.name != tool]

    def take(self) -> list[ToolCall]:
        """Return the calls of the requests that wait, which hilum runs now."""
        taken = self._waiting
        self._waiting = []
        self._running.update({request.call.id: request for request in taken})
        return [request.call for request in taken]

    def find(self, call_id: str) -> GuestRequest | None:
        """Return the request for which a call runs."""
        return self._running.get(call_id)

    def will_ask_about(self, action: GuestAction) -> bool:
        """Return whether a request about a tool call of the guest waits."""
        return any(request.action is action for request in self._waiting)

    def add_result(self, result: ToolResult) -> GuestRequest | None:
        """Answer the request to which a result belongs, and return it."""
        request = self._running.pop(result.call_id, None)
        if request is not None and not request.done.is_set():
            request.result = result
            request.allowed = request.allowed or not result.code
            request.done.set()
        return request
