"""A guest's requests to run commands in terminals, and the terminals that it has opened."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from hilum.messages import ToolCall

from hilum_acp.guests.requests import RequestQueue
from hilum_acp.guests.served_files import REFUSED
from hilum_acp.guests.terminals import MAX_COMMAND, Terminal
from hilum_acp.json_rpc import INVALID_PARAMS, RequestHandler, RpcError
from hilum_acp.messages import RESOURCE_NOT_FOUND

MAX_TERMINALS = 32
"""Terminals in which commands run; as many that have ended are kept until the guest releases them."""
TERMINAL = "guest_terminal"


class TerminalRequests:
    """Answers a guest's requests about terminals.

    Args:
        queue: The guest's requests.

    Attributes:
        opened: The terminals that the guest has opened, by id.
    """

    def __init__(self, queue: RequestQueue) -> None:
        self.opened: dict[str, Terminal] = {}
        self._queue = queue
        self._count = 0

    @property
    def handlers(self) -> dict[str, RequestHandler]:
        """The handlers of requests by method of the protocol."""
        return {
            "terminal/create": self._create,
            "terminal/output": self._read,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    @property
    def has_running(self) -> bool:
        """Whether a command runs, or waits for its call."""
        return any(not each.ended.is_set() for each in self.opened.values())

    def end(self, call: ToolCall, reason: str) -> None:
        """End the terminal of a call that failed, was stopped, or was not allowed to start.

        Args:
            call: The call.
            reason: Why the command did not start, if it did not.
        """
        terminal = self.opened.get(msgspec.json.decode(call.arguments)["terminal"])
        if terminal is None:
            return
        if not terminal.started:
            terminal.refuse(reason)
        terminal.kill()

    async def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        running = [each for each in self.opened.values() if not each.ended.is_set()]
        if len(running) >= MAX_TERMINALS:
            raise RpcError(REFUSED, f"{MAX_TERMINALS} terminals are already open.")
        self._count += 1
        terminal = Terminal(f"terminal-{self._count}-{os.urandom(3).hex()}", params)
        if not terminal.command.strip():
            raise RpcError(INVALID_PARAMS, "The request has no command.")
        if len(terminal.command) + len(terminal.folder) > MAX_COMMAND:
            raise RpcError(INVALID_PARAMS, f"The command has more than {MAX_COMMAND:,} characters.")
        arguments = {"terminal": terminal.id, "command": terminal.command}
        if terminal.folder:
            arguments["working_directory"] = terminal.folder
        # A terminal whose call does not wait would never end.
        self._queue.add(TERMINAL, arguments)
        self.opened[terminal.id] = terminal
        self._drop_ended()
        return {"terminalId": terminal.id}

    def _drop_ended(self) -> None:
        ended = [each.id for each in self.opened.values() if each.ended.is_set()]
        for name in ended[: max(len(ended) - MAX_TERMINALS, 0)]:
            del self.opened[name]

    def _find(self, params: dict[str, Any]) -> Terminal:
        terminal = self.opened.get(str(params.get("terminalId")))
        if terminal is None:
            raise RpcError(RESOURCE_NOT_FOUND, "There is no such terminal.")
        return terminal

    async def _read(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._find(params).describe()

    async def _wait(self, params: dict[str, Any]) -> dict[str, Any]:
        terminal = self._find(params)
        params.clear()
        await terminal.ended.wait()
        return terminal.exit_status

    async def _kill(self, params: dict[str, Any]) -> dict[str, Any]:
        self._find(params).kill()
        return {}

    async def _release(self, params: dict[str, Any]) -> dict[str, Any]:
        terminal = self._find(params)
        terminal.kill()
        del self.opened[terminal.id]
        return {}
