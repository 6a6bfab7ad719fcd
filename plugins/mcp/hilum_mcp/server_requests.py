"""Answers a server's requests to its client: user input, the model, folders, log messages.

Each request belongs to a call of one of the server's tools. The call determines which agent is
named to the user, and whose budget pays for the model. Only the request for the list of folders is
answered without asking the user. If nobody can be asked, hilum declines requests that need an
answer from the user.
This module imports the MCP SDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs
import mcp_types
import trio
from hilum import Agent, HilumError, Session, UserQuestions, __version__, is_loopback

from hilum_mcp import lazy
from hilum_mcp.forms import DECLINE, FormField, asks_for_secret, read_form

if TYPE_CHECKING:
    from hilum_mcp.server_log import ServerLog
    from hilum_mcp.settings import McpSettings

MAX_SHOWN = 2_000
YES = "Yes, this once"
NO = "No"
DONE = "I have done it"
SECRET_WARNING = (
    "\n(The form seems to ask for a secret, which would be stored in the session's log. Decline, and"
    " add the secret to env in mcp.json.)"
)
# Maximum number of times a field is presented if the answer is not allowed.
MAX_ATTEMPTS = 3

# Number of declined questions in one call after which no further question is asked.
MAX_REFUSALS = 3


@attrs.define(eq=False)
class ActiveCall:
    """A call that a server is processing.

    Args:
        agent: The agent that made the call.
        id: The ID of the call.
        limit: Time limit in seconds, counted from the last progress message.
        scope: The scope that cancels the call.
        refusals: The number of the server's questions that the user declined.
    """

    agent: Agent
    id: str
    limit: float
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    refusals: int = 0

    def renew(self) -> None:
        """Restart the time limit."""
        self.scope.deadline = trio.current_time() + self.limit

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause the time limit while hilum waits for the user."""
        self.scope.deadline = float("inf")
        try:
            yield
        finally:
            self.renew()


class ServerRequests:
    """A handler for the requests of one server.

    Args:
        session: The session.
        name: The server's name.
        settings: The settings of the session.
        log: The server's log.
        claims_user: Whether to claim that a user can be asked even if no user is present. Some
            servers offer certain tools only to clients that can ask a user, and the cached offer is
            meant for attended sessions.

    Attributes:
        offer_changed: An event that is set when the server's offer has changed.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        settings: McpSettings,
        log: ServerLog,
        *,
        claims_user: bool = False,
    ) -> None:
        self.offer_changed = trio.Event()
        self._session = session
        self._name = name
        self._settings = settings
        self._log = log
        self._claims_user = claims_user
        self._calls: list[ActiveCall] = []
        self._lock = trio.Lock()

    @contextmanager
    def track_call(self, agent: Agent, call: str, limit: float) -> Iterator[ActiveCall]:
        """Track a call while the block runs."""
        active = ActiveCall(agent, call, limit)
        self._calls.append(active)
        try:
            yield active
        finally:
            self._calls.remove(active)

    def callbacks(self) -> dict[str, Any]:
        """Return the callbacks for the SDK, which declares only the implemented capabilities."""
        callbacks: dict[str, Any] = {
            "client_info": mcp_types.Implementation(name="hilum", version=__version__),
            "list_roots_callback": self._list_roots,
            "logging_callback": self._write_log,
            "message_handler": self._handle_message,
        }
        if self._claims_user or self._find_plan() is not None:
            callbacks["elicitation_callback"] = self._elicit
            if self._settings.sampling == "ask":
                callbacks["sampling_callback"] = self._sample
        return callbacks

    def _find_plan(self) -> UserQuestions | None:
        """Return the plugin that asks the user, or ``None`` if nobody can be asked."""
        if not self._session.attended:
            return None
        return self._session.plugin(UserQuestions)

    async def _ask(
        self,
        question: str,
        options: Sequence[str],
        multiple: bool = False,
    ) -> tuple[str, ...]:
        """Ask the user, and return the answers; empty if nobody answered."""
        if not self._calls:
            return ()
        # The protocol does not state to which call a request belongs. The request most likely
        # belongs to the latest call.
        call = self._calls[-1]
        plan = self._find_plan()
        async with self._lock:  # each server may have only one open question at a time
            # The limit is checked after waiting for the lock, because the user may have declined
            # other questions in the meantime.
            if plan is None or call.refusals >= MAX_REFUSALS:
                return ()
            with call.pause():
                answer = await plan.ask(call.agent, call.id, question, options, multiple=multiple)
        # Only the user's own answer counts as consent.
        given: tuple[str, ...] = answer.answers if answer.by == "user" else ()
        if not given or given[0] in (DECLINE, NO):
            call.refusals += 1
        return given

    # --- the user's input -------------------------------------------------------------------------

    async def _elicit(self, _: Any, request: Any) -> mcp_types.ElicitResult:
        if request.mode == "url":
            return await self._elicit_page(request)
        schema = request.requested_schema
        if not isinstance(schema, dict):
            schema = schema.model_dump(by_alias=True, exclude_none=True)
        try:
            fields = read_form(schema)
        except ValueError as error:
            self._log.note(f"requested an unsupported form: {error}")
            return mcp_types.ElicitResult(action="decline")
        message = _shorten(request.message)
        content: dict[str, Any] = {}
        for number, field in enumerate(fields, 1):
            question = f"The MCP server {self._name} asks: {message}"
            if asks_for_secret(f"{message} {field.name} {field.question}"):
                question += SECRET_WARNING
            question += "\n"
            if len(fields) > 1:
                question += f"({number} of {len(fields)}) "
            value, action = await self._ask_field(question, field)
            if action:
                return mcp_types.ElicitResult(action=action)  # type: ignore[arg-type]
            if value is not None:
                content[field.name] = value
        return mcp_types.ElicitResult(action="accept", content=content)

    async def _elicit_page(self, request: Any) -> mcp_types.ElicitResult:
        host = _page_host(request.url)
        if not host:
            self._log.note(f"requested a page that is not allowed: {_shorten(request.url)!r}")
            return mcp_types.ElicitResult(action="decline")
        question = (
            f"The MCP server {self._name} asks you to open a page at {host}:"
            f" {_shorten(request.message)}\n{request.url}"
        )
        given = await self._ask(question, (DECLINE, DONE))
        if given == (DONE,):
            return mcp_types.ElicitResult(action="accept")
        return mcp_types.ElicitResult(action="decline" if given else "cancel")

    async def _ask_field(self, question: str, field: FormField) -> tuple[Any, str]:
        """Ask for one field; return its value and, if the form is aborted, the reply's action."""
        problem = ""
        for _ in range(MAX_ATTEMPTS):
            given = await self._ask(
                f"{question}{field.question}{problem}",
                field.options,
                field.multiple,
            )
            if not given:
                return None, "cancel"
            if DECLINE in given:
                return None, "decline"
            try:
                return field.parse(given), ""
            except ValueError as error:
                problem = f"\n({error})"
        return None, "cancel"

    # --- the model --------------------------------------------------------------------------------

    async def _sample(
        self,
        _: Any,
        request: Any,
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        if not self._calls:
            message = "A request to the model is only allowed during a tool call."
            return mcp_types.ErrorData(code=-1, message=message)
        call = self._calls[-1]
        shown = _shorten(lazy.sampling.format_request(request))
        question = (
            f"The MCP server {self._name} wants to send this request to your model, at your"
            f" cost:\n{shown}\nSend it?"
        )
        # "No" comes first, because pressing Enter selects the first option.
        if await self._ask(question, (NO, YES)) != (YES,):
            return mcp_types.ErrorData(code=-1, message="The user does not allow the request.")
        try:
            # The model may take longer than the time limit of the call.
            with call.pause():
                return await lazy.sampling.ask_model(call.agent, request, self._name)
        except HilumError as error:
            message = str(error)[:MAX_SHOWN]
            return mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=message)

    # --- folders, log messages, changes -----------------------------------------------------------

    async def _list_roots(self, _: Any) -> mcp_types.ListRootsResult:
        root = self._session.workspace.root
        uri: Any = root.as_uri()  # the SDK converts the URI to its own type
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=uri, name=root.name)])

    async def _write_log(self, params: Any) -> None:
        data = params.data if isinstance(params.data, str) else repr(params.data)
        self._log.note(f"{params.level}: {_shorten(data)}")
        await self._log.flush()

    async def _handle_message(self, message: Any) -> None:
        method = getattr(message, "method", "")
        if method.endswith(("tools/list_changed", "prompts/list_changed")):
            self.note_change()

    def note_change(self) -> None:
        """Record that the server's offer has changed."""
        self.offer_changed.set()


def _page_host(url: str) -> str:
    """Return the host of a page that the user may be asked to open, or an empty string.

    Only HTTPS URLs and URLs on this machine are allowed. URLs that could hide the real host are
    rejected.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    # Browsers read a backslash as a slash, and "https://bank.example@evil.example" opens the
    # latter.
    if not re.fullmatch(r"[!-\[\]-~]+", url) or "@" in parts.netloc:
        return ""
    if len(url) > MAX_SHOWN:
        return ""
    is_local = parts.scheme == "http" and is_loopback(url)
    return host if parts.scheme == "https" or is_local else ""


def _shorten(text: str) -> str:
    if len(text) <= MAX_SHOWN:
        return text
    return f"{text[:MAX_SHOWN]} … ({len(text):,} characters in total)"
