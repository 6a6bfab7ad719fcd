"""The server as the protocol sees it, in both of its eras: lists, calls, approvals, resources."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import inf
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

import mcp_types as t
import trio
from hilum import Image, Tool, __version__
from hilum.errors import E_BAD_ARGS
from hilum.messages import writable
from hilum_commandline import neutral
from hilum_guard import Guard, Redactor
from mcp import MCPError
from mcp.server import InitializationOptions, NotificationOptions, Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hilum_mcp.serving.agents import AgentTools
from hilum_mcp.serving.notices import Notices, Seen
from hilum_mcp.serving.prompts import Prompts
from hilum_mcp.serving.sessions import Sessions
from hilum_mcp.serving.work import Desk, Outcome, Work

if TYPE_CHECKING:
    from hilum.events import ApprovalAsked
    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[Any, Any]

PAUSE = 0.2
SUSPENDED = 200
FOREIGN = "mcp"  # the plugin whose tools are those of other servers: theirs to offer
INSTRUCTIONS = """\
Tools and agents of hilum, a coding agent, at work in the folder {root}. Paths are relative to it. What changes a file can be \
taken back by the user with `hilum undo`. A call that is refused says why: do not try to get round it."""


class _Server(Server[Any]):
    """Says to clients of the older era that it tells them of changed lists, over each transport."""

    def create_initialization_options(self, *_: Any, **__: Any) -> InitializationOptions:
        return super().create_initialization_options(NotificationOptions(True, True, True))


class Protocol:
    """See the module.

    Args:
        desk: What carries out what clients ask for.
        agents: Names and patterns of the agents to offer.
        sessions: Whether the sessions of the folder are offered.
        prompts: Whether the skills are offered.

    Attributes:
        notices: Tells clients what has changed, while ``watch`` runs.
    """

    def __init__(
        self, desk: Desk, agents: Sequence[str], *, sessions: bool, prompts: bool = True
    ) -> None:
        self._desk = desk
        self._agents = AgentTools(desk.session, agents)
        self._suspended: OrderedDict[str, Work] = OrderedDict()
        guard = desk.session.half(Guard)
        self._redact: Callable[[str], str] = guard.redact if guard is not None else Redactor()
        self._sessions = Sessions(desk.session, self._redact) if sessions else None
        self._prompts = Prompts(desk.session, self._redact) if prompts else None
        self.notices = Notices(self._look)

    def server(self) -> Server[Any]:
        """Create the server; one serves any number of connections."""
        root = self._desk.session.workspace.root
        more: dict[str, Any] = {}
        if self._sessions is not None:
            more = {
                "on_list_resources": self._sessions.list_resources,
                "on_list_resource_templates": self._sessions.list_templates,
                "on_read_resource": self._sessions.read_resource,
                "on_subscribe_resource": self.notices.subscribe,
                "on_unsubscribe_resource": self.notices.unsubscribe,
                "on_completion": self._sessions.complete,
            }
        if self._prompts is not None:
            more |= {
                "on_list_prompts": self._prompts.list_prompts,
                "on_get_prompt": self._prompts.get_prompt,
            }
        server = _Server(
            "hilum",
            version=__version__,
            title="hilum",
            instructions=INSTRUCTIONS.format(root=root),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            get_tool_input_schema=self._schema,
            on_subscriptions_listen=self.notices.listen,
            **more,
        )
        server.add_notification_handler(
            "notifications/initialized", t.NotificationParams, self.notices.joined
        )
        return server

    async def _look(self) -> Seen:
        return Seen(
            await self._tools(),
            await self._prompts.prompts() if self._prompts is not None else None,
            await self._sessions.state() if self._sessions is not None else {},
        )

    # --- tools ------------------------------------------------------------------------------------

    def _offered(self) -> dict[str, Tool]:
        session = self._desk.session
        tools = self._desk.tools
        readonly = session.approve == "readonly"
        return {
            name: tool
            for name, tool in session.tools.items()
            if tool.plugin != FOREIGN
            if tools.admits(name, tool.risk) and session.mode.tools.admits(name, tool.risk)
            if tool.risk == "read" or not readonly
        }

    def _schema(self, name: str) -> dict[str, Any] | None:
        tool = self._desk.session.tools.get(name)
        return tool.spec.parameters if tool is not None else None

    async def _list_tools(
        self, ctx: Context, params: t.PaginatedRequestParams | None
    ) -> t.ListToolsResult:
        return t.ListToolsResult(tools=await self._tools())

    async def _tools(self) -> list[t.Tool]:
        return [
            *(_described(tool) for tool in self._offered().values()),
            *await self._agents.tools(),
        ]

    async def _call_tool(
        self, ctx: Context, params: t.CallToolRequestParams
    ) -> t.CallToolResult | t.InputRequiredResult:
        key = params.name, writable(json.dumps(params.arguments or {}, ensure_ascii=False))
        if params.request_state is not None:
            work = self._resumed(params.request_state, key)
            self._take_answers(work, params.input_responses or {})
        elif params.name in self._offered():
            work = self._desk.call(*key, _who(ctx))
        elif (agent := await self._agents.find(params.name)) is not None:
            prompt = (params.arguments or {}).get("prompt")
            if not isinstance(prompt, str) or not prompt.strip():
                return self._result(
                    Outcome.failed(E_BAD_ARGS, "prompt is missing. Say what the agent is to do.")
                )
            work = self._desk.run_agent(agent, prompt, key)
        else:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await self._attend(work, ctx)

    async def _attend(self, work: Work, ctx: Context) -> t.CallToolResult | t.InputRequiredResult:
        """Wait for the outcome, or for a question that the client must take to its user."""
        work.attended = True
        told = 0.0
        last = -inf
        try:
            while work.outcome is None:
                if work.asked:
                    needed = await self._ask(work, ctx)
                    if needed is not None:
                        return needed
                    continue
                if trio.current_time() >= last + PAUSE and (shown := work.shown()):
                    last = trio.current_time()
                    # It must grow with each message.
                    if work.progress is None:
                        told = told + 1
                    else:
                        told = max(told + 1e-6, work.progress)
                    await ctx.session.report_progress(
                        told, None if work.progress is None else 1.0, self._redact(shown)
                    )
                    continue
                with trio.CancelScope(deadline=last + PAUSE if work.has_more else inf):
                    await work.news.wait()
        except trio.Cancelled:
            work.stop()
            with trio.CancelScope(shield=True):
                await work.over.wait()
            raise
        self.notices.wake()
        return self._result(work.outcome)

    def _result(self, outcome: Outcome) -> t.CallToolResult:
        content: list[t.ContentBlock] = []
        for part in outcome.parts:
            if isinstance(part, Image):
                content.append(
                    t.ImageContent(data=b64encode(part.data).decode(), mime_type=part.media_type)
                )
            else:
                content.append(
                    t.TextContent(
                        text=(
                            part.text
                            if part.source.startswith("tool:")
                            else self._redact(part.text)
                        )
                    )
                )
        data = None
        if outcome.data is not None:
            data = json.loads(self._redact(json.dumps(outcome.data, ensure_ascii=False)))
        return t.CallToolResult(
            content=content, structured_content=data, is_error=bool(outcome.code)
        )

    # --- approvals --------------------------------------------------------------------------------

    async def _ask(self, work: Work, ctx: Context) -> t.InputRequiredResult | None:
        """Take what is asked to the client's user, in the way of the client's era.

        Say no where there is none.
        """
        asked = dict(work.asked)
        if not _can_ask(ctx):
            for approval, event in asked.items():
                work.asked.pop(approval, None)
                how = BY_RULE if self._desk.session.approve == "auto" else BY_OPTION
                self._desk.refuse(approval, f"{NOBODY} {how} {event.reason}".strip())
            return None
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            token = token_urlsafe(24)
            self._suspended[token] = work
            work.attended = False
            self._forget()
            for name in asked:
                self._desk.shown(name)
            requests: dict[str, Any] = {
                name: t.ElicitRequest(params=self._form(event)) for name, event in asked.items()
            }
            return t.InputRequiredResult(input_requests=requests, request_state=token)
        for approval, event in asked.items():
            work.asked.pop(approval, None)
            form = self._form(event)
            with trio.move_on_after(max(self._desk.shown(approval) - time.time(), 0)):
                try:
                    given = await ctx.session.elicit_form(
                        form.message, form.requested_schema, ctx.request_id
                    )
                except MCPError as error:
                    self._desk.refuse(
                        approval, f"the client could not ask its user: {error.message}"
                    )
                else:
                    self._desk.answer(approval, _said(given))
        return None

    def _form(self, event: ApprovalAsked) -> t.ElicitRequestFormParams:
        """Write the whole call, with every argument in full, and why it is asked."""
        lines = [
            f"{event.call.name} ({event.risk}) wants to run"
            + (f": {event.reason}" if event.reason else "")
        ]
        try:
            data = json.loads(event.call.arguments or "{}")
        except ValueError:
            data = {"arguments": event.call.arguments}
        for name, value in data.items() if isinstance(data, dict) else [("arguments", data)]:
            if isinstance(value, str):
                text = value
            else:
                text = json.dumps(value, ensure_ascii=False, indent=2)
            lines.append(
                f"{name}: {text}"
                if "\n" not in text
                else f"{name}:\n  " + text.replace("\n", "\n  ")
            )
        lasting = event.scope or f"every call of {event.call.name}"
        choice = {
            "type": "string",
            "title": "Run it?",
            "description": f"session: also {neutral(lasting)}, until the server ends",
            "enum": ["yes", "no", "session"],
        }
        schema = {"type": "object", "properties": {"run": choice}, "required": ["run"]}
        return t.ElicitRequestFormParams(
            message=neutral(self._redact("\n".join(lines))), requested_schema=schema
        )

    def _resumed(self, token: str, key: tuple[str, str]) -> Work:
        work = self._suspended.get(token)
        if work is None or work.key != key:
            raise MCPError(
                t.INVALID_PARAMS,
                "The request state is not one of this call, or it was used, or it is too old.",
            )
        del self._suspended[token]
        return work

    def _take_answers(self, work: Work, responses: dict[str, Any]) -> None:
        for approval in list(work.asked):
            given = responses.get(approval)
            if isinstance(given, t.ElicitResult):
                work.asked.pop(approval)
                self._desk.answer(approval, _said(given))

    def _forget(self) -> None:
        """Let go of what no client has come back for."""
        for token, work in list(self._suspended.items()):
            if work.outcome is not None and len(self._suspended) > SUSPENDED // 2:
                del self._suspended[token]
        while len(self._suspended) > SUSPENDED:
            self._suspended.popitem(last=False)[1].stop()


NOBODY = "the client shows no forms (elicitation)."
BY_OPTION = "The user can let such calls run with `hilum mcp serve --approve auto`."
BY_RULE = "The user can allow this one by a rule, or do it themselves."


def _who(ctx: Context) -> str:
    """Name the client, as it calls itself, so that nothing in it reads as anything but a name."""
    params = ctx.session.client_params
    if params is not None:
        name = f"{params.client_info.name} {params.client_info.version}"
    else:
        name = "without a name"
    return re.sub(r"[^\w.-]+", " ", name)[:80].strip()


def _described(tool: Tool) -> t.Tool:
    """Describe a tool; what it says of itself becomes hints for the client."""
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


def _said(given: t.ElicitResult) -> str:
    if given.action == "accept":
        return str((given.content or {}).get("run", ""))
    return "no"


def _can_ask(ctx: Context) -> bool:
    """Return whether the client shows forms to its user.

    One that says nothing of kinds of elicitation means forms.
    """
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or bool(ctx.session.can_send_request)
