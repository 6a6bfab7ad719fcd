"""The editor at the other end of the connection, and what it can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from hilum_acp.json_rpc import Connection
from hilum_acp.messages import ClientAbilities


@attrs.define
class Client:
    """An editor.

    Attributes:
        connection: The connection to it.
        abilities: What it can do, as it said in ``initialize``.
        is_ending: Whether hilum ends, because a signal has arrived.
    """

    connection: Connection
    abilities: ClientAbilities = attrs.field(factory=ClientAbilities)
    is_ending: bool = False

    @property
    def has_left(self) -> bool:
        """Whether runs are interrupted, so that they can be continued, and not stopped."""
        return self.is_ending or self.connection.closed.is_set()

    async def update(self, session: str, update: Mapping[str, Any]) -> None:
        """Send an update of a session; wait while the editor reads too slowly.

        Raises:
            ConnectionLost: The editor has left.
        """
        await self.connection.notify("session/update", {"sessionId": session, "update": update})

    async def fill_form(
        self, session: str, message: str, properties: Mapping[str, Any], *, call: str = ""
    ) -> dict[str, Any] | None:
        """Ask the user to fill in a form.

        Args:
            session: Id of the session.
            message: What the form is about.
            properties: The fields, as in a JSON Schema.
            call: Id of the call that the form belongs to; empty for none.

        Returns:
            The values by field; ``None`` if the user declined.

        Raises:
            RpcError: The editor cannot show the form.
            ConnectionLost: The editor has left.
        """
        params: dict[str, Any] = {
            "mode": "form",
            "sessionId": session,
            "message": message,
            "requestedSchema": {"type": "object", "properties": properties},
        }
        if call:
            params["toolCallId"] = call
        result = await self.connection.request("elicitation/create", params)
        if not isinstance(result, dict) or result.get("action") != "accept":
            return None
        content = result.get("content")
        return content if isinstance(content, dict) else {}
