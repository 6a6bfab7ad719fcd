"""One server in a session: its connection, its offer, and its tools for the model."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import trio
from hilum import Agent, Call, Output, Session, Tool, ToolDenied, ToolError, errors
from trio.to_thread import run_sync as in_thread

from hilum_mcp import lazy
from hilum_mcp.errors import (
    ASK_FOR_LESS,
    ERROR_STATUS,
    MAX_MESSAGE,
    describe_error,
    is_too_large,
)
from hilum_mcp.launch import start_timeout
from hilum_mcp.offer import Offer, OfferedTool, save_offer
from hilum_mcp.server_log import ServerLog
from hilum_mcp.session_cache import ServerSummary

if TYPE_CHECKING:
    from mcp import Client

    from hilum_mcp.connection import Connection, State
    from hilum_mcp.server_config import ServerConfig
    from hilum_mcp.server_requests import ActiveCall, ServerRequests
    from hilum_mcp.settings import McpSettings
    from hilum_mcp.transport_state import TransportState

# Seconds within which several changes to a list are treated as a single change.
CHANGE_DELAY = 0.1

# Minimum number of seconds between two displayed progress messages.
PROGRESS_INTERVAL = 0.2

# Servers may send messages of any length, so the displayed text is limited.
MAX_PROPOSALS = 20
MAX_PROPOSAL = 80
MAX_RESOURCE_ROW = 300
MAX_PROGRESS = 500

# Maximum number of characters in a server's prompt, which becomes the user's message.
MAX_PROMPT = 200_000

# The modules that import the SDK.
SDK_MODULES = ("connector", "discovery", "server_requests")


class OnChange(Protocol):
    """A function that handles a change to a server's offer or to the state of its connection."""

    def __call__(self, client: ServerClient, *, has_new_offer: bool) -> None:
        """Handle the change. ``has_new_offer`` is true if the offer has been fetched again."""


class ServerClient:
    """An MCP server in a session.

    The connection is created on first use, because most sessions use few of their servers.

    Args:
        session: The session.
        summary: The session's data about the server.
        find: A function that returns the server's configuration, or raises ``ToolError`` if the
            server is not allowed to start. Blocks.
        settings: The settings of the session.
        nursery: The nursery for the server's task.
        changed: A function to call when the server's offer or state has changed.

    Attributes:
        offer: The server's offer; ``None`` while it is unknown.
        tools: The server's tools for the model.
        size: The size of the tool definitions in tokens.
    """

    def __init__(
        self,
        session: Session,
        summary: ServerSummary,
        find: Callable[[ServerSummary], ServerConfig],
        settings: McpSettings,
        nursery: trio.Nursery,
        changed: OnChange,
    ) -> None:
        self.session = session
        self.summary = summary
        self.prefix = summary.prefix
        self.settings = settings
        self.offer: Offer | None = None
        self.size = 0
        self.tools: list[Tool] = []
        self._find = find
        self._nursery = nursery
        self._changed = changed
        self._log = ServerLog(self.prefix)
        self._requests: ServerRequests | None = None
        self._connection: Connection | None = None
        if summary.offer is not None:
            self._set_offer(summary.offer, summary.names)

    @functools.cached_property
    def server(self) -> ServerConfig:
        """The server's configuration, which is read on first use. Blocks.

        Raises:
            ToolError: The configuration changed, or the server is no longer allowed to start.
        """
        return self._find(self.summary)

    @property
    def connection(self) -> Connection:
        """The connection. The connection's task starts on first access.

        Raises:
            ToolError: As for ``server``.
        """
        if self._connection is None:
            self._connection = lazy.connection.Connection(
                self.name,
                self._connect,
                start_timeout(self.server, self.settings),
                lambda _: self._changed(self, has_new_offer=False),
                lambda _, client: self._serve(client),
                self.summary.prog,
            )
            # The task does not run in the nursery of the first call that needs the connection,
            # because the connection outlives that call.
            self._nursery.start_soon(self._connection.run, name=f"mcp {self.name}")
        return self._connection

    @asynccontextmanager
    async def _connect(self, state: TransportState) -> AsyncIterator[Client]:
        requests = await self._load_requests()
        connector = lazy.connector.Connector(
            self.session,
            self.server,
            self.settings,
            self._log,
            requests,
        )
        async with connector.connect(state) as client:
            yield client

    async def _load_requests(self) -> ServerRequests:
        """Return the object that answers the server's requests, after importing the SDK.

        The import takes half a second, so it runs in a thread, which is abandoned if the session
        closes in the meantime.
        """
        if self._requests is None:
            await in_thread(lazy.load, *SDK_MODULES, abandon_on_cancel=True)
        if self._requests is None:  # checked again, because another task may have been faster
            self._requests = lazy.server_requests.ServerRequests(
                self.session,
                self.name,
                self.settings,
                self._log,
            )
        return self._requests

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._connection.state if self._connection else "idle"

    @property
    def error(self) -> str:
        """Why the connection is down, in one sentence."""
        return self._connection.error if self._connection else ""

    @property
    def starts(self) -> int:
        """The number of times the server was started."""
        return self._connection.starts if self._connection else 0

    @property
    def name(self) -> str:
        """The server's name."""
        return self.summary.name

    def is_available_to(self, agent: Agent) -> bool:
        """Return whether the settings let an agent use the server."""
        names = self.settings.agents.get(self.name)
        return names is None or agent.name in names or agent.profile.name in names

    def check_agent(self, agent: Agent) -> None:
        """Check that the settings let an agent use the server.

        Raises:
            ToolDenied: The settings do not allow the agent to use the server.
        """
        if not self.is_available_to(agent):
            message = f"The agent {agent.name} may not use the MCP server {self.name} (mcp.agents)."
            raise ToolDenied(message, hint="Continue without it.")

    # --- what it offers ---------------------------------------------------------------------------

    def set_offer(self, offer: Offer) -> None:
        """Set the server's offer and create its tools."""
        self._set_offer(offer, lazy.tool_names.name_tools(self.server, self.prefix, offer))

    def _set_offer(self, offer: Offer, names: Mapping[str, str]) -> None:
        self.offer = offer
        named = [tool for tool in offer.tools if tool.name in names]
        self.tools = [self._make_tool(names[tool.name], tool) for tool in named]
        self.size = sum(tool.size for tool in named)

    async def _serve(self, client: Client) -> None:
        """Fetch the offer, and fetch it again whenever the server reports a change."""
        requests = await self._load_requests()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, client, requests)
            while True:
                # The event is replaced before the offer is fetched, so that a change that arrives
                # during the fetch is not lost.
                requests.offer_changed = trio.Event()
                offer = await lazy.discovery.fetch_offer(client)
                if offer != self.offer:
                    if self._is_worth_saving(offer):
                        await in_thread(save_offer, self.summary.digest, offer)
                    self.set_offer(offer)
                    self._changed(self, has_new_offer=True)
                await requests.offer_changed.wait()
                await trio.sleep(CHANGE_DELAY)

    def _is_worth_saving(self, offer: Offer) -> bool:
        """Return whether a new offer should replace the cached offer.

        Some servers offer tools only to a client that can ask a user. An unattended session must
        not remove such tools from the cache.
        """
        if self.session.attended or self.offer is None:
            return True
        return not {tool.name for tool in offer.tools} < {tool.name for tool in self.offer.tools}

    async def _listen(self, client: Client, requests: ServerRequests) -> None:
        """Watch for changes to the offer, if the protocol version has a stream of changes.

        In older versions, the server announces changes in notifications.
        """
        capabilities = client.server_capabilities
        tools = bool(capabilities.tools and capabilities.tools.list_changed)
        prompts = bool(capabilities.prompts and capabilities.prompts.list_changed)
        if tools or prompts:
            await lazy.discovery.watch_offer(
                client,
                tools,
                prompts,
                requests.note_change,
                self._log,
            )

    # --- calls ------------------------------------------------------------------------------------

    def _make_tool(self, name: str, offered: OfferedTool) -> Tool:
        description = f"The tool {offered.name} of the MCP server {self.name}."
        # A read-only tool runs without approval, and its changes are not journaled. A server's
        # claim that a tool is read-only is not sufficient: the user must trust the claim.
        is_read = offered.read_only and self.name in self.settings.trust_read_only
        tool = Tool(
            name,
            offered.description or description,
            functools.partial(self._call, offered.name),
            risk="read" if is_read else "network",
            effect="once",
            # `_call` has its own time limit, which pauses while hilum waits for the user and
            # restarts on progress.
            timeout=float("inf"),
            schema=offered.schema,
            changes_files=self.summary.is_local and not is_read,
        )
        if self.name in self.settings.agents:
            tool.serves = self.is_available_to
        return tool

    @property
    def _call_timeout(self) -> float:
        return self.summary.call_seconds or self.settings.call_seconds

    async def _call(self, tool: str, call: Call, /, **arguments: Any) -> Output:
        # The SDK cannot encode lone surrogates, which would break the connection.
        arguments = lazy.file_formats.replace_surrogates(arguments)
        requests = await self._load_requests()
        # The first progress message is shown immediately.
        last_shown = trio.current_time() - PROGRESS_INTERVAL

        async def show_progress(done: float, total: float | None, message: str | None) -> None:
            nonlocal last_shown
            # Every progress message extends the time limit, even if it is not displayed.
            active.renew()
            if trio.current_time() - last_shown >= PROGRESS_INTERVAL:
                last_shown = trio.current_time()
                amount = f"{done:g}/{total:g}" if total else f"{done:g}"
                text = f"{amount} {message or ''}".rstrip()
                call.emit(text[:MAX_PROGRESS] + "\n")

        with requests.track_call(call.agent, call.id, self._call_timeout) as active:
            answer = await self._run(
                lambda client: client.call_tool(tool, arguments, progress_callback=show_progress),
                tool,
                active,
            )
        return lazy.results.make_output(answer, f"tool:{call.name}")

    async def _run(self, job: Any, what: str, active: ActiveCall | None = None) -> Any:
        """Run a job, within the time limit of the active call if there is one.

        Raises:
            ToolError: The job failed. The error contains advice for the model.
        """

        async def limited(client: Client) -> Any:
            if active is None:
                return await job(client)
            active.scope = trio.CancelScope()
            active.renew()
            with active.scope:
                return await job(client)

        try:
            answer = await self.connection.run_job(limited)
        except (ToolError, trio.Cancelled):
            raise
        except Exception as error:
            raise self._make_error(what, describe_error(error)) from None
        if active is not None and active.scope.cancelled_caught:
            raise ToolError(
                f"{what} did not respond within {active.limit:g} seconds, so hilum cancelled the "
                f"call on the MCP server {self.name}.",
                code=errors.E_TIMEOUT,
                hint="The call may have taken effect. Request less at once.",
            )
        return answer

    def _make_error(self, what: str, reason: str) -> ToolError:
        server = f"The MCP server {self.name}"
        if is_too_large(reason):
            message = f"{server} sent more than {MAX_MESSAGE >> 20} MB in response to {what}."
            return ToolError(message, code=errors.E_TOO_LARGE, hint=ASK_FOR_LESS)
        # The SDK reports only the status; the transport has recorded more of the response.
        if reason.startswith(ERROR_STATUS):
            reason = self.connection.refusal or reason
        return ToolError(
            f"{server} refuses {what}: {reason}",
            code=errors.E_SERVER,
            hint="Check the arguments, or continue without the server.",
        )

    async def read_resource(self, uri: str, source: str) -> Output:
        """Read a resource.

        Raises:
            ToolError: There is no such resource, or the server is down.
        """
        uri = lazy.file_formats.replace_surrogates(uri)
        found = await self._run_limited(
            lambda client: client.read_resource(uri), f"the resource {uri}"
        )
        return lazy.results.make_resource_output(found.contents, source)

    async def list_resources(self) -> list[str]:
        """Return a row for each resource and each resource template.

        Raises:
            ToolError: The server is down.
        """
        rows: list[str] = await self._run_limited(
            lambda client: lazy.discovery.list_resources(client, MAX_RESOURCE_ROW),
            "the list of resources",
        )
        return rows

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Return the text of a prompt.

        Raises:
            ToolError: There is no such prompt, the prompt is too long, or the server is down.
        """
        arguments = lazy.file_formats.replace_surrogates(arguments)
        found = await self._run_limited(
            lambda client: client.get_prompt(name, arguments), f"the prompt {name}"
        )
        text = lazy.results.join_messages(found.messages, f"mcp {self.name}")
        if len(text) > MAX_PROMPT:
            raise ToolError(
                f"The prompt {name} of the MCP server {self.name} has {len(text):,} characters.",
                code=errors.E_TOO_LARGE,
                hint=f"The maximum is {MAX_PROMPT:,}. Write the request yourself.",
            )
        return lazy.discovery.clean_text(text, MAX_PROMPT)

    async def complete(self, prompt: str, argument: str, given: dict[str, str]) -> list[str]:
        """Return the server's suggestions for an argument of a prompt.

        Args:
            prompt: The prompt.
            argument: The argument.
            given: Known arguments, which may narrow down the suggestions.

        Raises:
            ToolError: The server is down.
        """
        given = lazy.file_formats.replace_surrogates(given)
        values: list[str] = await self._run_limited(
            lambda client: lazy.discovery.complete(client, prompt, argument, given),
            f"suggestions for {argument}",
        )
        clean = lazy.discovery.clean_text
        return [clean(value.replace("\n", " "), MAX_PROPOSAL) for value in values[:MAX_PROPOSALS]]

    async def _run_limited(self, job: Any, what: str) -> Any:
        # The server may have to start first.
        with trio.move_on_after(self._call_timeout + self.connection.start_seconds):
            return await self._run(job, what)
        raise ToolError(
            f"The MCP server {self.name} did not respond within {self._call_timeout:g} seconds.",
            code=errors.E_TIMEOUT,
        )
