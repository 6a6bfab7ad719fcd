"""One server in a session: its connection, what it offers, and its tools as the model sees them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio
from hilum import Agent, Call, Output, Session, Tool, ToolDenied, ToolError, errors

from hilum_mcp import offer
from hilum_mcp.offer import Offer, Offered
from hilum_mcp.quick import Brief

if TYPE_CHECKING:
    from mcp import Client

    from hilum_mcp.connection import Connection, State
    from hilum_mcp.log import Log
    from hilum_mcp.requests import Requests
    from hilum_mcp.server import Server
    from hilum_mcp.settings import McpSettings

TOGETHER = 0.1
"""Seconds within which changes of a list are one."""

OFTEN = 0.2
"""Seconds between two signs of progress that are shown."""

MOST_PROPOSALS, LONGEST_PROPOSAL = 20, 80
"""What of a server's proposals for an argument is shown."""

LONGEST_PROMPT = 200_000
"""Characters of a server's prompt, which becomes what the user says."""


class ServerClient:
    """A server of a session.

    What talks to it is imported and made at its first use: most servers of most sessions have none.

    Args:
        session: The session.
        brief: The server, as the session begins with it.
        find: Gives its description. Blocks.
        settings: As they hold for the session.
        nursery: Owns the server's task.
        changed: Called when what it offers, or how it is, has changed.

    Attributes:
        offer: What it offers, ``None`` while that is not known.
    """

    def __init__(
        self,
        session: Session,
        brief: Brief,
        find: Callable[[Brief], Server],
        settings: McpSettings,
        nursery: trio.Nursery,
        changed: Callable[[ServerClient, bool], None],
    ) -> None:
        self.session = session
        self.brief = brief
        self.prefix = brief.prefix
        self.settings = settings
        self.offer: Offer | None = None
        self.size = 0
        self.tools: list[Tool] = []
        self._find = find
        self._nursery = nursery
        self._changed = changed
        if brief.offer is not None:
            self._take(brief.offer, brief.names)

    @functools.cached_property
    def server(self) -> Server:
        """Its description, looked up at its first use. Blocks for the time of reading small files.

        Raises:
            ToolError: It is another one now, or may not be started any more.
        """
        return self._find(self.brief)

    @functools.cached_property
    def connection(self) -> Connection:
        """Its connection, whose task begins with the first look at this."""
        from hilum_mcp.connection import Connection
        from hilum_mcp.opening import Opening, start_seconds

        opening = Opening(self.session, self.server, self.settings, self._log, self._requests)
        connection = Connection(
            self.name,
            opening,
            start_seconds(self.server, self.settings),
            lambda _: self._changed(self, False),
            lambda _, client: self._serve(client),
        )
        self._nursery.start_soon(connection.run, name=f"mcp {self.name}")
        return connection

    @functools.cached_property
    def _log(self) -> Log:
        from hilum_mcp.log import Log

        return Log(self.prefix)

    @functools.cached_property
    def _requests(self) -> Requests:
        from hilum_mcp.requests import Requests

        return Requests(self.session, self.name, self.settings, self._log)

    @property
    def _used(self) -> Connection | None:
        return self.__dict__.get("connection")

    @property
    def state(self) -> State:
        """How its connection is."""
        return self._used.state if self._used else "idle"

    @property
    def error(self) -> str:
        """Why it is down, one sentence."""
        return self._used.error if self._used else ""

    @property
    def starts(self) -> int:
        """How often it was started."""
        return self._used.starts if self._used else 0

    @property
    def name(self) -> str:
        """What it is called."""
        return self.brief.name

    def serves(self, agent: Agent) -> bool:
        """Return whether the user lets an agent use it."""
        chosen = self.settings.agents.get(self.name)
        return chosen is None or agent.name in chosen or agent.profile.name in chosen

    def check(self, agent: Agent) -> None:
        """Refuse an agent that may not use it.

        Raises:
            ToolDenied: It may not.
        """
        if not self.serves(agent):
            message = f"The agent {agent.name} may not use the MCP server {self.name} (mcp.agents)."
            raise ToolDenied(message, hint="Do without it.")

    # --- what it offers ---------------------------------------------------------------------------

    def take(self, new: Offer) -> None:
        """Take what it offers, and make tools of it."""
        from hilum_mcp.naming import names_of

        self._take(new, names_of(self.server, self.prefix, new))

    def _take(self, new: Offer, names: Mapping[str, str]) -> None:
        self.offer = new
        shown = [tool for tool in new.tools if tool.name in names]
        self.tools = [self._tool(names[tool.name], tool) for tool in shown]
        self.size = sum(tool.size for tool in shown)

    async def _serve(self, client: Client) -> None:
        """Ask what it offers, and again whenever it says that this has changed."""
        from hilum_mcp import listing

        requests = self._requests
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, client)
            while True:
                requests.changed = trio.Event()
                new = await listing.ask(client)
                if new != self.offer:
                    if self._is_more(new):
                        await trio.to_thread.run_sync(offer.keep, self.brief.digest, new)
                    self.take(new)
                    self._changed(self, True)
                await requests.changed.wait()
                await trio.sleep(TOGETHER)

    def _is_more(self, new: Offer) -> bool:
        """Return whether an offer is worth keeping: not where only tools are missing that servers
        offer to who can ask a user.
        """
        if self.session.attended or self.offer is None:
            return True
        return not {tool.name for tool in new.tools} < {tool.name for tool in self.offer.tools}

    async def _listen(self, client: Client) -> None:
        """Hear of changes where the protocol has a stream for that.

        Else they come as notifications.
        """
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        from hilum_mcp.errors import reason_of

        has = client.server_capabilities
        tools = bool(has.tools and has.tools.list_changed)
        prompts = bool(has.prompts and has.prompts.list_changed)
        if not (tools or prompts):
            return
        try:
            async with client.listen(
                tools_list_changed=tools, prompts_list_changed=prompts
            ) as heard:
                async for _ in heard:
                    self._requests.changed.set()
        except ListenNotSupportedError:
            return
        except (SubscriptionLost, MCPError, TimeoutError) as error:
            self._log.say(f"does not tell of changes: {reason_of(error)}")

    # --- calls ------------------------------------------------------------------------------------

    def _tool(self, name: str, offered: Offered) -> Tool:
        described = offered.description or f"The tool {offered.name} of the MCP server {self.name}."
        run = functools.partial(self._call, offered.name)
        # A server's claim that a tool only reads would spare it the questions and the journal: only
        # the user can say so.
        reads = offered.read_only and self.name in self.settings.trust_read_only
        # The time limit is this module's own: it stands still while the user is asked, and progress
        # renews it.
        made = Tool(
            name,
            described,
            run,
            risk="read" if reads else "network",
            effect="once",
            timeout=float("inf"),
            schema=offered.schema,
            changes_files=self.brief.local and not reads,
        )
        if self.name in self.settings.agents:
            made.serves = self.serves
        return made

    async def _call(self, tool: str, call: Call, /, **arguments: Any) -> Output:
        from hilum_mcp import results
        from hilum_mcp.parsing import whole

        arguments = whole(
            arguments
        )  # the SDK writes no half characters: the connection would break
        shown = trio.current_time() - OFTEN

        async def progress(done: float, total: float | None, message: str | None) -> None:
            nonlocal shown
            work.alive()
            if trio.current_time() - shown >= OFTEN:
                shown = trio.current_time()
                of = f"{done:g}/{total:g}" if total else f"{done:g}"
                call.emit(f"{of} {message or ''}".rstrip()[:500] + "\n")

        limit = self.brief.call_seconds or self.settings.call_seconds
        with self._requests.working(call.agent, call.id, limit) as work:
            answer = await self._ask(
                work,
                lambda client: client.call_tool(tool, arguments, progress_callback=progress),
                tool,
            )
        return results.output(answer, f"tool:{call.name}")

    async def _ask(self, work: Any, job: Any, what: str) -> Any:
        """Run a job within its time limit; says what goes wrong so that the model can go on."""

        async def timed(client: Client) -> Any:
            if work is None:
                return await job(client)
            work.scope = trio.CancelScope()
            work.alive()
            with work.scope:
                return await job(client)

        try:
            answer = await self.connection.use(timed)
        except (ToolError, trio.Cancelled):
            raise
        except Exception as error:
            from hilum_mcp.errors import LESS, NO_STATUS, reason_of, too_large
            from hilum_mcp.stdio import LONGEST_LINE

            why = reason_of(error)
            if too_large(why):
                message = (
                    f"The MCP server {self.name} answers {what} with more than"
                    f" {LONGEST_LINE >> 20} MB."
                )
                raise ToolError(message, code=errors.E_TOO_LARGE, hint=LESS) from None
            if why.startswith(NO_STATUS) and self.connection.refused:
                why = self.connection.refused
            message = f"The MCP server {self.name} refuses {what}: {why}"
            raise ToolError(
                message, code=errors.E_SERVER, hint="Look at the arguments, or do without."
            ) from None
        if work is not None and work.scope.cancelled_caught:
            message = (
                f"{what} did not answer within {work.limit:g} seconds, and the MCP server"
                f" {self.name} was told to stop."
            )
            raise ToolError(
                message,
                code=errors.E_TIMEOUT,
                hint="It may have had its effect. Ask for less at once.",
            )
        return answer

    async def read(self, uri: str, source: str) -> Output:
        """Read a resource.

        Raises:
            ToolError: There is none, or the server is down.
        """
        from hilum_mcp import results
        from hilum_mcp.parsing import whole

        uri = whole(uri)
        found = await self._limited(lambda client: client.read_resource(uri), f"the resource {uri}")
        texts: list[str] = []
        images: list[Any] = []
        for each in found.contents:
            results.resource(each, source, texts, images)
        return Output("\n\n".join(texts) or ("" if images else "It is empty."), tuple(images))

    async def resources(self) -> list[str]:
        """Return a line for each resource and each template of resources.

        Raises:
            ToolError: The server is down.
        """

        async def both(client: Client) -> list[str]:
            from mcp import MCPError

            from hilum_mcp import listing

            odd: list[str] = []
            rows = await listing.pages(
                client.list_resources, "resources", odd, lambda each: _row(each.uri, each)
            )
            with suppress(MCPError):  # many servers have none, and do not know the question
                rows += await listing.pages(
                    client.list_resource_templates,
                    "resource_templates",
                    odd,
                    lambda each: _row(each.uri_template, each),
                )
            return rows + odd

        found: list[str] = await self._limited(both, "the list of resources")
        return found

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Return the text of a prompt.

        Raises:
            ToolError: There is none, or the server is down.
        """
        from hilum_mcp import listing, results
        from hilum_mcp.parsing import whole

        arguments = whole(arguments)
        found = await self._limited(
            lambda client: client.get_prompt(name, arguments), f"the prompt {name}"
        )
        parts = []
        for message in found.messages:
            texts, images = results.contents([message.content], f"mcp {self.name}")
            text = "\n".join([*texts, *("[an image: not shown]" for _ in images)])
            parts.append(text if message.role == "user" else f"[{message.role}]\n{text}")
        whole_text = "\n\n".join(parts)
        if len(whole_text) > LONGEST_PROMPT:
            message = (
                f"The prompt {name} of the MCP server {self.name} has {len(whole_text):,}"
                " characters."
            )
            raise ToolError(
                message,
                code=errors.E_TOO_LARGE,
                hint=f"{LONGEST_PROMPT:,} are taken. Say in your words what to do.",
            )
        return listing.text(whole_text, LONGEST_PROMPT)

    async def proposals(self, prompt: str, argument: str, given: dict[str, str]) -> list[str]:
        """Return what the server proposes for an argument of a prompt, none where it proposes
        nothing.

        Args:
            prompt: The prompt.
            argument: Its argument.
            given: Arguments that are known, which may narrow it.

        Raises:
            ToolError: The server is down.
        """
        from mcp_types import PromptReference

        from hilum_mcp.listing import text
        from hilum_mcp.parsing import whole

        reference = PromptReference(type="ref/prompt", name=prompt)
        context = whole(given)

        async def ask(client: Client) -> list[str]:
            if client.server_capabilities.completions is None:
                return []
            found = await client.complete(
                reference, {"name": argument, "value": ""}, context or None
            )
            return [
                text(each.replace("\n", " "), LONGEST_PROPOSAL)
                for each in found.completion.values[:MOST_PROPOSALS]
            ]

        proposed: list[str] = await self._limited(ask, f"proposals for {argument}")
        return proposed

    async def _limited(self, job: Any, what: str) -> Any:
        limit = self.brief.call_seconds or self.settings.call_seconds
        with trio.move_on_after(limit + self.connection.start_seconds):
            return await self._ask(None, job, what)
        raise ToolError(
            f"The MCP server {self.name} did not answer within {limit:g} seconds.",
            code=errors.E_TIMEOUT,
        )


def _row(uri: str, each: Any) -> str:
    about = ": ".join(filter(None, (each.title or each.name, each.description)))
    kind = f" ({each.mime_type})" if each.mime_type else ""
    from hilum_mcp.listing import text

    return text(f"{uri}{kind} {about}".replace("\n", " "), 300)
