"""What a server asks of its client: the user's input, the model, the folders, and to be heard.

All of it happens within a call of one of its tools: who called is whom the user sees, and what the
model answers is paid by. Nothing is answered by itself but the list of folders; where nobody can be
asked, all else is declined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs
import trio
from hilum import Agent, HilumError, Session, __version__

from hilum_mcp.forms import DECLINE, Field, fields, secret

if TYPE_CHECKING:
    from hilum_mcp.log import Log
    from hilum_mcp.settings import McpSettings

LONGEST = 2_000
YES = "Yes, this once"
NO = "No"
WARNING = (
    "\n(It seems to ask for a secret, which would stand in the session's log. Decline, and give it"
    " in env of mcp.json.)"
)
MOST_REFUSALS = 3
"""Questions of one call that the user declines, after which no more of them is asked."""


@attrs.define(eq=False)
class Work:
    """A call that a server works on.

    Args:
        agent: Who calls.
        id: The call's id.
        limit: Seconds it may take without a sign of life.
        scope: Ends the call.
        refused: How many questions of the server the user has declined in it.
    """

    agent: Agent
    id: str
    limit: float
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    refused: int = 0

    def alive(self) -> None:
        """Note a sign of life: the time begins anew."""
        self.scope.deadline = trio.current_time() + self.limit

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stop the clock: the user is waited for."""
        self.scope.deadline = float("inf")
        try:
            yield
        finally:
            self.alive()


class Requests:
    """Answers the requests of one server.

    Args:
        session: The session.
        name: What the server is called.
        settings: As they hold for the session.
        log: The server's log.
        able: Whether it is told of a user even where there is none: what is listed is then what a
            session at a terminal gets, as servers offer some tools only to who can ask.
    """

    def __init__(
        self, session: Session, name: str, settings: McpSettings, log: Log, able: bool = False
    ) -> None:
        self.session = session
        self.name = name
        self.settings = settings
        self.log = log
        self.able = able
        self.changed = trio.Event()
        self._work: list[Work] = []
        self._lock = trio.Lock()

    @contextmanager
    def working(self, agent: Agent, call: str, limit: float) -> Iterator[Work]:
        """Note that the server works on a call, while the block lasts."""
        work = Work(agent, call, limit)
        self._work.append(work)
        try:
            yield work
        finally:
            self._work.remove(work)

    def callbacks(self) -> dict[str, Any]:
        """Return what the SDK is to call; a server is told of those abilities only."""
        import mcp_types

        given: dict[str, Any] = {
            "client_info": mcp_types.Implementation(name="hilum", version=__version__),
            "list_roots_callback": self._roots,
            "logging_callback": self._heard,
            "message_handler": self._news,
        }
        if self.able or self._plan() is not None:
            given["elicitation_callback"] = self._elicit
            if self.settings.sampling == "ask":
                given["sampling_callback"] = self._sample
        return given

    def _plan(self) -> Any:
        """What asks the user, where somebody can be asked."""
        if not self.session.attended:
            return None
        from hilum_plan import Plan

        return self.session.half(Plan)

    async def _ask(
        self, question: str, options: Sequence[str], multiple: bool = False
    ) -> tuple[str, ...]:
        """Ask the user; gives nothing where nobody has answered."""
        if not self._work:
            return ()
        work = self._work[-1]
        plan = self._plan()
        async with self._lock:  # one question of a server at a time
            if plan is None or work.refused >= MOST_REFUSALS:
                return ()
            with work.waiting():
                answer = await plan.ask(work.agent, work.id, question, options, multiple=multiple)
        given: tuple[str, ...] = answer.answers if answer.by == "user" else ()
        work.refused += not given or given[0] in (DECLINE, NO)
        return given

    # --- the user's input -------------------------------------------------------------------------

    async def _elicit(self, _: Any, wanted: Any) -> Any:
        import mcp_types

        who = f"The MCP server {self.name} asks"
        said = _short(wanted.message)
        if wanted.mode == "url":
            done = "I have done it"
            host = _host(wanted.url)
            if not host:
                self.log.say(f"asked to open what may not be opened: {_short(wanted.url)!r}")
                return mcp_types.ElicitResult(action="decline")
            given = await self._ask(
                f"{who} you to open a page at {host}: {said}\n{wanted.url}", (DECLINE, done)
            )
            action = "accept" if given == (done,) else "decline" if given else "cancel"
            return mcp_types.ElicitResult(action=action)  # type: ignore[arg-type]
        schema = wanted.requested_schema
        if isinstance(schema, dict):
            schema = schema
        else:
            schema = schema.model_dump(by_alias=True, exclude_none=True)
        try:
            wished = fields(schema)
        except ValueError as error:
            self.log.say(f"asked for what no form can have: {error}")
            return mcp_types.ElicitResult(action="decline")
        content: dict[str, Any] = {}
        for number, field in enumerate(wished, 1):
            place = f"({number} of {len(wished)}) " if len(wished) > 1 else ""
            warning = WARNING if secret(f"{said} {field.name} {field.question}") else ""
            value, action = await self._field(f"{who}: {said}{warning}\n{place}", field)
            if action:
                return mcp_types.ElicitResult(action=action)  # type: ignore[arg-type]
            if value is not None:
                content[field.name] = value
        return mcp_types.ElicitResult(action="accept", content=content)

    async def _field(self, question: str, field: Field) -> tuple[Any, str]:
        """Ask for a field.

        Gives its value, and what is to be answered where it has none and the form ends.
        """
        problem = ""
        for _ in range(3):
            given = await self._ask(
                f"{question}{field.question}{problem}", field.options, field.multiple
            )
            if not given:
                return None, "cancel"
            if DECLINE in given:
                return None, "decline"
            try:
                return field.value(given), ""
            except ValueError as error:
                problem = f"\n({error})"
        return None, "cancel"

    # --- the model --------------------------------------------------------------------------------

    async def _sample(self, _: Any, wanted: Any) -> Any:
        import mcp_types

        from hilum_mcp import sampling

        if not self._work:
            return mcp_types.ErrorData(
                code=-1, message="There is no call of a tool that would need it."
            )
        work = self._work[-1]
        said = _short(sampling.shown(wanted))
        question = (
            f"The MCP server {self.name} wants to ask your model, at your cost:\n{said}\nMay it?"
        )
        given = await self._ask(question, (NO, YES))
        if given != (YES,):
            return mcp_types.ErrorData(code=-1, message="The user does not allow it.")
        try:
            with work.waiting():
                return await sampling.answer(work.agent, wanted, self.name)
        except HilumError as error:
            return mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=str(error)[:LONGEST])

    # --- folders, and what it says ----------------------------------------------------------------

    async def _roots(self, _: Any) -> Any:
        import mcp_types

        root = self.session.workspace.root
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=root.as_uri(), name=root.name)])  # type: ignore[arg-type]

    async def _heard(self, params: Any) -> None:
        data = params.data if isinstance(params.data, str) else repr(params.data)
        self.log.say(f"{params.level}: {_short(data)}")
        await self.log.flush()

    async def _news(self, message: Any) -> None:
        """Note that what it offers has changed; who asks again waits for the event."""
        if getattr(message, "method", "").endswith(("tools/list_changed", "prompts/list_changed")):
            self.changed.set()


def _host(url: str) -> str:
    """Return the host of a page that a user may be sent to, empty for none: ``https``, or this
    machine; nothing hidden in it.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    own = host in ("localhost", "127.0.0.1", "::1")
    plain = (
        url.isascii()
        and url.isprintable()
        and " " not in url
        and "\\" not in url
        and len(url) <= LONGEST
    )
    if (
        plain
        and "@" not in parts.netloc
        and (parts.scheme == "https" or (own and parts.scheme == "http"))
    ):
        return host
    return ""


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} … ({len(text):,} characters in all)"
