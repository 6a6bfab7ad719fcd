"""Implements the server in both versions of the protocol: lists, calls, approvals, resources."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

import mcp_types as t
import trio
from hilum import (
    ContentPolicy,
    Image,
    Text,
    Tool,
    __version__,
    find_approval_texts,
    make_redactor,
)
from hilum.command import escape_terminal
from hilum.errors import E_BAD_ARGS
from hilum.messages import replace_surrogates
from mcp import MCPError
from mcp.server import InitializationOptions, NotificationOptions, Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from trio.to_thread import run_sync as in_thread

from hilum_mcp.serving.agents import AgentTools
from hilum_mcp.serving.notifications import Notifications, PolledState
from hilum_mcp.serving.prompts import SkillPrompts
from hilum_mcp.serving.request_runner import ClientRequest, Outcome, RequestRunner
from hilum_mcp.serving.sessions import SessionResources

if TYPE_CHECKING:
    from hilum.events import ApprovalAsked
    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[Any, Any]
    CallResult = t.CallToolResult | t.InputRequiredResult

# Maximum number of lines of a call that a form shows. A longer call is collapsed in the middle.
FORM_LINES = 60

# Number of trailing lines still shown when the text is collapsed, so that padding cannot hide
# anything.
FORM_TAIL = 15

# Number of characters that a form is assumed to show per line.
FORM_COLUMNS = 160

PROGRESS_INTERVAL = 0.2
MIN_PROGRESS = 1e-6
# Suspended requests whose clients never return must not accumulate in memory.
MAX_SUSPENDED = 200
MAX_CLIENT_NAME = 80
# The plugin that provides other servers' tools, which clients should use directly from those
# servers.
CLIENT_PLUGIN = "mcp"

NO_FORMS = "the client does not support forms (elicitation)."
USE_OPTION = "The user can let such calls run with `hilum mcp serve --approve auto`."
USE_RULE = "The user can allow this call with a rule, or make the change themselves."
INSTRUCTIONS = """\
Tools and agents of hilum, a coding agent that works in the folder {root}. Paths are relative to \
this folder. The user can revert file changes with `hilum undo`. The result of a refused call \
contains the reason; do not try to work around it."""


class _NotifyingServer(Server[Any]):
    """A server that declares list-change notifications to clients of the older protocol."""

    def create_initialization_options(self, *_: Any, **__: Any) -> InitializationOptions:
        return super().create_initialization_options(NotificationOptions(True, True, True))


class Protocol:
    """The handler of MCP requests.

    Args:
        runner: The runner for the requests.
        agents: Names and patterns of the agents to offer.
        sessions: Whether the sessions of the folder are offered.
        prompts: Whether the skills are offered.

    Attributes:
        notifications: The notifier that reports changes to clients while its ``watch`` method runs.
    """

    def __init__(
        self,
        runner: RequestRunner,
        agents: Sequence[str],
        *,
        sessions: bool,
        prompts: bool = True,
    ) -> None:
        session = runner.session
        policy = session.plugin(ContentPolicy)
        self._redact: Callable[[str], str] = policy.redact if policy else make_redactor()
        self._runner = runner
        self._agents = AgentTools(session, agents)
        self._sessions = SessionResources(session, self._redact) if sessions else None
        self._prompts = SkillPrompts(session, self._redact) if prompts else None
        self._suspended: OrderedDict[str, ClientRequest] = OrderedDict()
        self._unfolded: set[str] = set()  # approvals whose calls are shown in full
        self.notifications = Notifications(self._poll)

    def make_server(self) -> Server[Any]:
        """Create the server, which can serve any number of connections."""
        handlers: dict[str, Any] = {}
        if self._sessions is not None:
            handlers.update(
                on_list_resources=self._sessions.list_resources,
                on_list_resource_templates=self._sessions.list_templates,
                on_read_resource=self._sessions.read_resource,
                on_subscribe_resource=self.notifications.subscribe,
                on_unsubscribe_resource=self.notifications.unsubscribe,
                on_completion=self._sessions.complete,
            )
        if self._prompts is not None:
            handlers.update(
                on_list_prompts=self._prompts.list_prompts,
                on_get_prompt=self._prompts.get_prompt,
            )
        server = _NotifyingServer(
            "hilum",
            version=__version__,
            title="hilum",
            instructions=INSTRUCTIONS.format(root=self._runner.session.workspace.root),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            get_tool_input_schema=self._find_schema,
            on_subscriptions_listen=self.notifications.listen,
            **handlers,
        )
        server.add_notification_handler(
            "notifications/initialized",
            t.NotificationParams,
            self.notifications.add_client,
        )
        return server

    async def _poll(self) -> PolledState:
        prompts = await self._prompts.find_prompts() if self._prompts is not None else None
        resources = await self._sessions.poll() if self._sessions is not None else {}
        return PolledState(await self._find_tools(), prompts, resources)

    # --- tools ------------------------------------------------------------------------------------

    def _offered_tools(self) -> dict[str, Tool]:
        session = self._runner.session
        return {name: tool for name, tool in session.tools.items() if self._is_offered(name, tool)}

    def _is_offered(self, name: str, tool: Tool) -> bool:
        session = self._runner.session
        if tool.plugin == CLIENT_PLUGIN:
            return False
        if tool.risk != "read" and session.approve == "readonly":
            return False
        filters = (self._runner.tools, session.mode.tools)
        return all(tools.admits(name, tool.risk) for tools in filters)

    def _find_schema(self, name: str) -> dict[str, Any] | None:
        tool = self._runner.session.tools.get(name)
        return tool.spec.parameters if tool is not None else None

    async def _list_tools(
        self,
        ctx: Context,
        params: t.PaginatedRequestParams | None,
    ) -> t.ListToolsResult:
        return t.ListToolsResult(tools=await self._find_tools())

    async def _find_tools(self) -> list[t.Tool]:
        tools = [_describe_tool(tool) for tool in self._offered_tools().values()]
        return tools + await self._agents.list_tools()

    async def _call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> CallResult:
        arguments = params.arguments or {}
        key = params.name, replace_surrogates(json.dumps(arguments, ensure_ascii=False))
        if params.request_state is not None:
            request = self._resume(params.request_state, key)
            self._take_answers(request, params.input_responses or {})
            return await self._attend(request, ctx)
        if params.name in self._offered_tools():
            return await self._attend(self._runner.start_call(*key, _client_name(ctx)), ctx)
        agent = await self._agents.find_agent(params.name)
        if agent is None:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            message = "prompt is missing. Describe the agent's task."
            return self._make_result(Outcome.failed(E_BAD_ARGS, message))
        return await self._attend(self._runner.start_agent(agent, prompt, key), ctx)

    async def _attend(self, request: ClientRequest, ctx: Context) -> CallResult:
        """Return the outcome of a request, or questions that the client must ask its user."""
        request.is_attended = True
        progress = _ProgressReporter(request, ctx, self._redact)
        try:
            while request.outcome is None:
                if request.approvals:
                    question = await self._ask_client(request, ctx)
                    if question is not None:
                        return question
                    continue
                if not await progress.report():
                    await progress.wait()
        except trio.Cancelled:
            request.stop()
            # The wait is shielded from cancellation, because a request counts as cancelled only
            # when no part of it is running any more.
            with trio.CancelScope(shield=True):
                await request.stopped.wait()
            raise
        self.notifications.wake()
        return self._make_result(request.outcome)

    def _make_result(self, outcome: Outcome) -> t.CallToolResult:
        content = [self._make_content(part) for part in outcome.parts]
        data = None
        if outcome.data is not None:
            # The data is redacted as text, because a secret may be anywhere in it.
            data = json.loads(self._redact(json.dumps(outcome.data, ensure_ascii=False)))
        return t.CallToolResult(
            content=content,
            structured_content=data,
            is_error=bool(outcome.code),
        )

    def _make_content(self, part: Text | Image) -> t.ContentBlock:
        if isinstance(part, Image):
            data = b64encode(part.data).decode()
            return t.ImageContent(data=data, mime_type=part.media_type)
        # The guard has already redacted the results of tools.
        is_redacted = part.source.startswith("tool:")
        return t.TextContent(text=part.text if is_redacted else self._redact(part.text))

    # --- approvals --------------------------------------------------------------------------------

    async def _ask_client(
        self,
        request: ClientRequest,
        ctx: Context,
    ) -> t.InputRequiredResult | None:
        """Ask the client's user to decide on open approvals; if the client cannot ask, deny them.

        Returns:
            In the newer protocol, the questions for the client, which answers them in a new
            request; otherwise ``None``.
        """
        if not _can_ask(ctx):
            self._refuse_all(request)
            return None
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await self._suspend(request)
        for approval, event in list(request.approvals.items()):
            request.approvals.pop(approval, None)
            await self._elicit(request, event, ctx)
        return None

    def _refuse_all(self, request: ClientRequest) -> None:
        is_auto = self._runner.session.approve == "auto"
        hint = USE_RULE if is_auto else USE_OPTION
        for approval, event in list(request.approvals.items()):
            request.approvals.pop(approval, None)
            reason = f"{NO_FORMS} {hint} {event.reason}".strip()
            self._runner.refuse(approval, reason)

    async def _suspend(self, request: ClientRequest) -> t.InputRequiredResult:
        """Return the open approvals as questions, and keep the request until the client returns."""
        approvals = dict(request.approvals)
        # Several clients may use one server, so a client must not be able to guess the token of
        # another client's call.
        token = token_urlsafe(24)
        self._suspended[token] = request
        request.is_attended = False
        self._limit_suspended()
        for approval in approvals:
            self._runner.start_approval_clock(approval)
        questions: dict[str, Any] = {
            approval: t.ElicitRequest(params=await self._make_form(event))
            for approval, event in approvals.items()
        }
        return t.InputRequiredResult(input_requests=questions, request_state=token)

    async def _elicit(self, request: ClientRequest, event: ApprovalAsked, ctx: Context) -> None:
        """Ask for one approval in the older protocol."""
        form = await self._make_form(event)
        deadline = self._runner.start_approval_clock(event.id)
        with trio.move_on_after(max(deadline - time.time(), 0)):
            try:
                given = await ctx.session.elicit_form(
                    form.message,
                    form.requested_schema,
                    ctx.request_id,
                )
            except MCPError as error:
                reason = f"the client could not ask its user: {error.message}"
                self._runner.refuse(event.id, reason)
            else:
                self._take_answer(request, event, given)

    async def _make_form(self, event: ApprovalAsked) -> t.ElicitRequestFormParams:
        """Return a form that shows the call in the same way as the terminal.

        File changes are shown as diffs, and hosts in the form in which hilum contacts them. A long
        call is collapsed; the answer ``view`` shows the whole call.
        """
        texts = find_approval_texts()
        describe = partial(texts.describe_call, event, self._runner.session)
        text = self._redact(await in_thread(describe)).removeprefix("── ")
        answers = ["yes", "no"]
        meanings = []
        if event.once_only:
            meanings.append("This call is dangerous, so only this call can be allowed")
        else:
            answers.append("session")
            covers = texts.describe_scope(event)
            meanings.append(f"session: also {covers}, until the server ends")
        if event.id not in self._unfolded:
            text, is_folded = _fold(text)
            if is_folded:
                answers.append("view")
                meanings.append("view: show the whole call first")
        about = "; ".join(meanings)
        choice = {"type": "string", "title": "Run it?", "description": about, "enum": answers}
        schema = {"type": "object", "properties": {"run": choice}, "required": ["run"]}
        # The call may contain escape sequences, and the client may show the form in a terminal.
        return t.ElicitRequestFormParams(message=escape_terminal(text), requested_schema=schema)

    def _take_answer(
        self,
        request: ClientRequest,
        event: ApprovalAsked,
        given: t.ElicitResult,
    ) -> None:
        """Handle the user's answer to an approval request, or ask again and show the whole call."""
        choice = _read_choice(given)
        if choice == "view" and event.id not in self._unfolded:
            self._unfolded.add(event.id)
            request.approvals[event.id] = event
            return
        self._unfolded.discard(event.id)
        if choice == "session" and event.once_only:
            # The form does not offer this answer, and an answer that it does not offer is a no.
            choice = "no"
        self._runner.answer(event.id, choice)

    def _resume(self, token: str, key: tuple[str, str]) -> ClientRequest:
        """Return the suspended request that belongs to a token. A token can be used only once.

        Raises:
            MCPError: No suspended request with this tool and these arguments belongs to the token.
        """
        request = self._suspended.get(token)
        # An approval applies only to the call that was shown.
        if request is None or request.key != key:
            raise MCPError(
                t.INVALID_PARAMS,
                "The request state does not belong to this call, was already used, or is too old.",
            )
        del self._suspended[token]
        return request

    def _take_answers(self, request: ClientRequest, responses: dict[str, Any]) -> None:
        for approval in list(request.approvals):
            given = responses.get(approval)
            if isinstance(given, t.ElicitResult):
                self._take_answer(request, request.approvals.pop(approval), given)

    def _limit_suspended(self) -> None:
        """Drop suspended requests to which no client has returned."""
        for token, request in list(self._suspended.items()):
            if request.outcome is not None and len(self._suspended) > MAX_SUSPENDED // 2:
                del self._suspended[token]
        while len(self._suspended) > MAX_SUSPENDED:
            self._suspended.popitem(last=False)[1].stop()


class _ProgressReporter:
    """A reporter that sends the output of a request as progress notifications.

    Args:
        request: The request.
        ctx: The context of the client's request.
        redact: A function that replaces secrets.
    """

    def __init__(self, request: ClientRequest, ctx: Context, redact: Callable[[str], str]) -> None:
        self._request = request
        self._ctx = ctx
        self._redact = redact
        self._value = 0.0
        self._last = -inf

    async def report(self) -> bool:
        """Send new output, unless the last message is too recent; return whether any was sent."""
        request = self._request
        if not request.has_output or trio.current_time() < self._last + PROGRESS_INTERVAL:
            return False
        self._last = trio.current_time()
        # The protocol requires each progress value to be larger than the previous one.
        if request.progress is None:
            self._value += 1
        else:
            self._value = max(self._value + MIN_PROGRESS, request.progress)
        total = None if request.progress is None else 1.0
        text = self._redact(request.take_output())
        await self._ctx.session.report_progress(self._value, total, text)
        return True

    async def wait(self) -> None:
        """Wait for a change, or until the output that was held back can be sent."""
        deadline = self._last + PROGRESS_INTERVAL if self._request.has_output else inf
        with trio.CancelScope(deadline=deadline):
            await self._request.changed.wait()


def _client_name(ctx: Context) -> str:
    """Return the name of the client without characters that could be misinterpreted."""
    params = ctx.session.client_params
    name = "without a name"
    if params is not None:
        name = f"{params.client_info.name} {params.client_info.version}"
    return re.sub(r"[^\w.-]+", " ", name)[:MAX_CLIENT_NAME].strip()


def _describe_tool(tool: Tool) -> t.Tool:
    """Convert a tool to the protocol's type, with hints about the tool's effects."""
    hints = t.ToolAnnotations(
        read_only_hint=tool.risk == "read",
        destructive_hint=tool.risk in ("write", "execute"),
        idempotent_hint=tool.effect != "once",
        open_world_hint=tool.risk in ("network", "execute"),
    )
    spec = tool.spec
    return t.Tool(
        name=spec.name,
        description=spec.description,
        input_schema=spec.parameters,
        annotations=hints,
    )


def _fold(text: str) -> tuple[str, bool]:
    """Return a text, without its middle if it is long, and whether anything was omitted."""
    lines: list[str] = []
    for line in text.split("\n"):
        starts = range(0, max(len(line), 1), FORM_COLUMNS)
        lines += [line[start : start + FORM_COLUMNS] for start in starts]
    if len(lines) <= FORM_LINES:
        return text, False
    head = lines[: FORM_LINES - FORM_TAIL]
    tail = lines[-FORM_TAIL:]
    left_out = len(lines) - FORM_LINES
    fold = f"   … {left_out:,} lines are not shown here; the answer view shows the whole call …"
    return "\n".join([*head, fold, *tail]), True


def _read_choice(given: t.ElicitResult) -> str:
    if given.action == "accept":
        return str((given.content or {}).get("run", ""))
    return "no"


def _can_ask(ctx: Context) -> bool:
    """Return whether the client shows forms to its user.

    A client that declares elicitation without listing modes supports forms.
    """
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or bool(ctx.session.can_send_request)
