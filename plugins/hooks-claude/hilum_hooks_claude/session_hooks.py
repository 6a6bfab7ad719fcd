"""The plugin instance of a session, which calls hooks at the events of the session."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from hilum import (
    Block,
    HilumError,
    ModelCallDenied,
    PromptDenied,
    UserQuestions,
    hookimpl,
)
from hilum.events import ApprovalAsked, PromptQueued
from hilum.hooks import hook_deadline

from hilum_hooks_claude import lazy
from hilum_hooks_claude.settings import HooksSettings

if TYPE_CHECKING:
    from hilum import (
        Agent,
        AssistantMessage,
        ContextRequest,
        Interpretation,
        ModelCall,
        Session,
        Tool,
        ToolCall,
        ToolResult,
        Verdict,
    )
    from hilum.events import Event

    from hilum_hooks_claude.approvals import JudgedHook
    from hilum_hooks_claude.dispatch import Finished
    from hilum_hooks_claude.hook import BrokenGuard, Hook
    from hilum_hooks_claude.settings_files import SettingsFile

# Hooks have time limits of their own; these are never reached before them.
_DEADLINE = 7_200.0
# Seconds that hooks may take when the session closes.
_END_TIMEOUT = 2.0
MAX_MISTAKES_SHOWN = 5
MAX_QUESTION = 4_000
"""Maximum number of characters of the question about the hooks of a project."""
YES = "Yes, run them"
LATER = "Not now"
NEVER = "No, never"
_PRIORITY = 60
_HOOKS_HINT = "`hilum hooks` shows where the hook is."
_GUARDED_BY = "Claude Code's hooks"


class SessionHooks:
    """The hooks of a session.

    Args:
        session: The session.
        settings: The plugin's settings.
        nursery: The nursery for hooks that nothing waits for.

    Attributes:
        judged: The hooks with their states.
        decided: Set when the user has answered the question about the project's hooks.
    """

    def __init__(self, session: Session, settings: HooksSettings, nursery: trio.Nursery) -> None:
        self._session = session
        self._settings = settings
        self._nursery = nursery
        self._root = Path(session.workspace.root)
        self._files: list[SettingsFile] = []
        self.judged: list[JudgedHook] = []
        self._broken: list[BrokenGuard] = []
        self.decided: trio.Event = trio.Event()
        self._context: list[str] = []
        self._greeted: set[str] = set()
        self._compacted: set[str] = set()
        self._objected: set[str] = set()
        self._blocked: dict[str, str] = {}
        self._reported: set[Hook] = set()
        runner = lazy.runner.HookRunner(session, settings)
        self._transcripts = lazy.transcripts.Transcripts(session.id, str(self._root))
        self._dispatcher = lazy.dispatch.Dispatcher(session, runner, self._transcripts, nursery)
        self._calls = lazy.call_hooks.CallHooks(session, settings, self._dispatcher)

    @property
    def _is_replay(self) -> bool:
        return self._dispatcher.recorded is not None

    # --- hooks and their states -------------------------------------------------------------------

    def read(self) -> None:
        """Read the settings files and the user's decisions. Blocks.

        Raises:
            UsageError: The decisions cannot be read.
        """
        if not self._is_replay:
            self._files = lazy.settings_files.read_files(self._root)
        self.judge()

    def judge(self) -> None:
        """Determine the states of the hooks again, after the user has decided about some. Blocks.

        Raises:
            UsageError: The decisions cannot be read.
        """
        self.judged = lazy.approvals.judge_hooks(
            self._root, self._files, enabled=self._settings.enabled
        )
        user_files = [file for file in self._files if file.source == "user"]
        is_off = any(file.disables_hooks for file in user_files) or not self._settings.enabled
        self._broken = []
        # A project must not make calls of this user need approval by a mistake.
        if not is_off and self._settings.failing_guard == "deny":
            for file in user_files:
                self._broken += file.broken_guards

    def find_executed_files(self) -> list[str]:
        """Return the files that the hooks which run execute; commands must not change them."""
        return [path for each in self.judged if each.state == "runs" for path in each.files]

    def _select(self, *events: str) -> list[JudgedHook]:
        """Return the hooks of events that run, and those that refuse calls."""
        return [
            each
            for each in self.judged
            if each.hook.event in events and (each.state == "runs" or each.refuses)
        ]

    def _is_active(self, *events: str) -> bool:
        return self._is_replay or any(each.hook.event in events for each in self.judged)

    async def _check_files(self, hooks: Sequence[JudgedHook]) -> list[JudgedHook]:
        """Return hooks with their present states: their files may have changed meanwhile."""
        if all(each.hook.source == "user" for each in hooks):
            return list(hooks)
        now = await trio.to_thread.run_sync(lazy.approvals.judge_again, hooks, self._root)
        for before, each in zip(hooks, now, strict=True):
            has_changed = before.state == "runs" and each.state != "runs"
            if has_changed and each.hook not in self._reported:
                self._reported.add(each.hook)
                say = f"The hook {each.hook.title} ({each.hook.place}) does not run. {each.reason}"
                self._session.note("hooks_claude.changed", say=say)
        return now

    async def _run(
        self,
        event: str,
        given: dict[str, Any],
        agent: Agent | None = None,
        *,
        occasion: str = "",
        subject: str = "",
        limit: float = 0.0,
    ) -> list[Finished]:
        """Run the hooks of an event that is not about a call.

        Args:
            event: The event.
            given: What they read.
            agent: The agent that the event is about.
            occasion: What their matchers are compared with.
            subject: What tells the events of an agent apart.
            limit: Seconds that each hook may take.
        """
        hooks = []
        for each in await self._check_files(self._select(event)):
            # Without an occasion, as for prompts, Claude Code ignores the matcher.
            is_meant = not occasion or lazy.matching.matches(each.hook.matcher, occasion)
            if each.state == "runs" and is_meant:
                hooks.append(each)
        jobs = [lazy.dispatch.Job(each) for each in hooks]
        return await self._dispatcher.run(
            event, jobs, given, agent, subject=subject, about=occasion, limit=limit
        )

    # --- calls ------------------------------------------------------------------------------------

    @hookimpl(tryfirst=True)
    @hook_deadline(_DEADLINE)
    def on_tool_call(
        self, agent: Agent, call: ToolCall, tool: Tool
    ) -> Awaitable[Verdict | None] | None:
        """Let hooks judge a call."""
        if not self._is_active("PreToolUse") and not self._broken:
            return None
        run = agent.conversation.run
        if run is None or call.id not in run.calls:
            # A face asks about a command that the user typed.
            return None
        return self._judge_call(agent, call, tool)

    async def _judge_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        hooks = await self._check_files(self._select("PreToolUse"))
        return await self._calls.judge(agent, call, tool, hooks, self._broken)

    @hookimpl
    @hook_deadline(_DEADLINE)
    def check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> Awaitable[ToolResult | None] | None:
        """Let hooks read the result of a call, and add what they say to it."""
        if not self._is_active("PreToolUse", "PostToolUse", "PostToolUseFailure"):
            return None
        if result.code == "E_STOPPED":
            return None
        return self._check_result(agent, call, result)

    async def _check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> ToolResult | None:
        hooks = await self._check_files(self._select("PostToolUse", "PostToolUseFailure"))
        running = [each for each in hooks if each.state == "runs"]
        return await self._calls.check(agent, call, result, running)

    # --- prompts ----------------------------------------------------------------------------------

    @hookimpl(tryfirst=True)
    @hook_deadline(_DEADLINE)
    def interpret_prompt(
        self, session: Session, text: str, agent_name: str
    ) -> Awaitable[Interpretation | None] | None:
        """Let hooks block a prompt before it is queued, or add to it.

        Raises:
            PromptDenied: A hook blocks the prompt.
        """
        actor = session.agents.get(agent_name)
        if not self._is_active("UserPromptSubmit") or (actor is not None and actor.parent):
            return None
        return self._interpret(text)

    async def _interpret(self, text: str) -> None:
        reason = await self._submit(text)
        if reason:
            raise PromptDenied(reason, hint=_HOOKS_HINT)

    async def _submit(self, text: str) -> str:
        """Run the hooks about a prompt; return why it is blocked, or an empty string."""
        finished = await self._run("UserPromptSubmit", {"prompt": text}, subject="prompt")
        for each in finished:
            answer = each.answer
            if answer.decision == "deny" or answer.stops:
                why = answer.reason or "it gave no reason"
                return f"The hook {each.name} blocked the prompt: {why}"
        self._context += [each.answer.context for each in finished if each.answer.context]
        return ""

    @hookimpl
    @hook_deadline(_DEADLINE)
    def gather_context(
        self, agent: Agent, request: ContextRequest
    ) -> Awaitable[list[Block] | None] | None:
        """Add what hooks say at the start of a session and about a prompt."""
        if agent.parent or not self._is_active("SessionStart", "UserPromptSubmit"):
            return None
        return self._gather(agent, request)

    async def _gather(self, agent: Agent, request: ContextRequest) -> list[Block] | None:
        texts = await self._start(agent)
        if request.piped and self._is_active("UserPromptSubmit"):
            # Such a prompt is never interpreted, so it has its run already.
            reason = await self._submit(request.text)
            if reason:
                self._blocked[agent.starting] = reason
        texts += self._context
        self._context = []
        return [Block("hook", text, priority=_PRIORITY) for text in texts] or None

    async def _start(self, agent: Agent) -> list[str]:
        """Run the hooks about the start of a session, or about its compaction."""
        source = ""
        if agent.name in self._compacted:
            self._compacted.discard(agent.name)
            source = "compact"
        if agent.name not in self._greeted:
            self._greeted.add(agent.name)
            source = "resume" if self._session.began_at else "startup"
        if not source:
            return []
        given = {"source": source, "model": self._session.model}
        finished = await self._run("SessionStart", given, agent, occasion=source)
        return [each.answer.context for each in finished if each.answer.context]

    @hookimpl
    def on_model_call(self, agent: Agent, call: ModelCall) -> ModelCallDenied | None:
        """Refuse the requests of a run whose prompt a hook has blocked."""
        reason = self._blocked.get(agent.starting)
        return ModelCallDenied(reason, code="E_DENIED") if reason else None

    # --- the conversation -------------------------------------------------------------------------

    @hookimpl
    @hook_deadline(_DEADLINE)
    def check_answer(self, agent: Agent, message: AssistantMessage) -> Awaitable[str | None] | None:
        """Let hooks object to a final answer."""
        event = "SubagentStop" if agent.parent else "Stop"
        if not self._is_active(event):
            return None
        return self._check_answer(event, agent, message)

    async def _check_answer(
        self, event: str, agent: Agent, message: AssistantMessage
    ) -> str | None:
        given = {
            "stop_hook_active": agent.starting in self._objected,
            "last_assistant_message": message.text,
        }
        occasion = agent.profile.name if agent.parent else ""
        finished = await self._run(event, given, agent, occasion=occasion)
        if any(each.answer.stops for each in finished):
            return None
        objections = [
            f"The hook {each.name} objects: {each.answer.reason}"
            for each in finished
            if each.answer.decision == "deny"
        ]
        if not objections:
            return None
        self._objected.add(agent.starting)
        return "\n".join(objections)

    @hookimpl(tryfirst=True)
    @hook_deadline(_DEADLINE)
    def trim_context(self, agent: Agent) -> Awaitable[None] | None:
        """Run the hooks before a compaction, which they cannot prevent."""
        if not self._is_active("PreCompact", "SessionStart"):
            return None
        return self._before_compaction(agent)

    async def _before_compaction(self, agent: Agent) -> None:
        if not agent.parent:
            self._compacted.add(agent.name)
        asked = agent.conversation.compaction_requested
        trigger = "manual" if asked is not None else "auto"
        given = {
            "trigger": trigger,
            "custom_instructions": asked.focus if asked is not None else "",
        }
        await self._run("PreCompact", given, agent, occasion=trigger)

    @hookimpl
    @hook_deadline(_DEADLINE)
    def remind(self, agent: Agent) -> Awaitable[str | None] | None:
        """Return what hooks say after a compaction during a run."""
        if agent.name not in self._compacted:
            return None
        return self._remind(agent)

    async def _remind(self, agent: Agent) -> str | None:
        return "\n".join(await self._start(agent)) or None

    # --- the session ------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Report what is wrong with hooks, and start what follows the events of the session."""
        self._report()
        guard = lazy.runner.find_guard(self._session)
        if guard is not None:
            guard.protect_executed(_GUARDED_BY, self.find_executed_files)
        after = self._session.journal.last
        self._nursery.start_soon(self._follow, after, name="hooks: events")

    def _report(self) -> None:
        """Inform the user about mistakes in the files, and about hooks that do not run."""
        found = [str(mistake) for file in self._files for mistake in file.mistakes]
        mistakes = [" ".join(mistake.split()) for mistake in found]
        lines = mistakes[:MAX_MISTAKES_SHOWN]
        if len(mistakes) > MAX_MISTAKES_SHOWN:
            lines.append(f"… and {len(mistakes) - MAX_MISTAKES_SHOWN} more; see `hilum hooks`.")
        counts = {
            "need your approval": self._count("needs approval"),
            "have changed and need your approval again": self._count("changed"),
            "are not supported": self._count("not supported"),
        }
        parts = [f"{count} {what}" for what, count in counts.items() if count]
        if parts:
            lines.append(f"Hooks of Claude Code: {', '.join(parts)}. See `hilum hooks`.")
        if self._settings.enabled:
            lines += self._describe_idle_guards()
        if lines:
            self._session.note("hooks_claude.report", say="\n".join(lines), mistakes=mistakes[:50])

    def _describe_idle_guards(self) -> Iterator[str]:
        """Yield a sentence about each kind of guard that does not run."""
        lost = [each.hook for each in self.judged if each.state == "cannot be read"]
        if lost:
            names = _name_tools(hook.matcher for hook in lost)
            yield (
                f"Your approved guard for {names} cannot be read, so the calls that it guards are"
                f" denied until you correct {lost[0].file}."
            )
        for file in self._files:
            matchers = [guard.matcher for guard in file.broken_guards]
            known = [matcher for matcher in matchers if matcher is not None]
            if not matchers or (lost and file.source != "user"):
                continue
            names = _name_tools(known)
            what = f"The guard for {names}" if known else "A guard"
            say = f"{what} in {file.shown} does not run. Correct the file."
            if file.source == "user" and self._broken and None in matchers:
                say += " Until then, every call that changes something needs approval."
            elif file.source == "user" and self._broken:
                say += " Until then, the calls that it may guard need approval."
            yield say
        unsupported = [
            each.hook
            for each in self.judged
            if each.state == "not supported" and each.hook.event == "PreToolUse"
        ]
        for hook in unsupported[:MAX_MISTAKES_SHOWN]:
            yield (
                f"The guard for {_name_tools([hook.matcher])} ({hook.place}) does not run:"
                f" {hook.unsupported}. Write it as a command, or add a rule with `hilum permissions"
                " deny`."
            )

    def _count(self, state: str) -> int:
        return sum(each.state == state for each in self.judged)

    async def _follow(self, after: int) -> None:
        """Ask about hooks after the first prompt, and run those about notifications."""
        has_asked = False
        async for event in self._session.events(after):
            if isinstance(event, PromptQueued) and not has_asked:
                has_asked = True
                self._nursery.start_soon(self._ask, name="hooks: approval")
            elif isinstance(event, ApprovalAsked):
                self._nursery.start_soon(self._notify, event)

    async def _notify(self, event: Event) -> None:
        if self._is_replay or not self._is_active("Notification"):
            return
        assert isinstance(event, ApprovalAsked)
        given = {
            "message": f"hilum needs your permission to use {event.call.name}",
            "title": "Permission needed",
            "notification_type": "permission_prompt",
        }
        await self._run("Notification", given, occasion="permission_prompt", subject=event.call.id)

    async def _ask(self) -> None:
        """Ask the user about the hooks of a trusted project."""
        if not self._session.attended or self._is_replay:
            return
        questions = self._session.plugin(UserQuestions)
        waiting = [
            each
            for each in self.judged
            if each.state in ("needs approval", "changed") and not each.is_distrusted
        ]
        if questions is None or not waiting:
            return
        approvals = lazy.approvals
        try:
            text = await trio.to_thread.run_sync(approvals.describe_request, waiting, self._root)
            options = (LATER, YES, NEVER)
            answer = await questions.ask(self._session.agents["main"], "", text, options)
            if answer.answers == (NEVER,):
                await trio.to_thread.run_sync(approvals.refuse, self._root, waiting)
            elif answer.answers == (YES,):
                # Only what was shown is approved: a command may have changed the files meanwhile.
                now = await trio.to_thread.run_sync(approvals.describe_request, waiting, self._root)
                if now == text:
                    await trio.to_thread.run_sync(approvals.approve, self._root, waiting)
            await trio.to_thread.run_sync(self.judge)
        except HilumError as error:
            say = f"The hooks are not approved. {error}"
            self._session.note("hooks_claude.not_approved", say=say)
        self.decided.set()

    async def end(self) -> None:
        """Run the hooks about the end of the session, and remove temporary files."""
        if self._is_active("SessionEnd") and self._session.journal.broken is None:
            with trio.move_on_after(_END_TIMEOUT + 1):
                agent = self._session.agents.get("main")
                await self._run(
                    "SessionEnd", {"reason": "other"}, agent, occasion="other", limit=_END_TIMEOUT
                )
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._transcripts.close)


def _name_tools(matchers: Iterable[str]) -> str:
    """Return the tools that guards are for, as a sentence names them."""
    names = dict.fromkeys(" ".join(matcher.split()) for matcher in matchers)
    if not names or "" in names or "*" in names:
        return "all calls"
    return " and ".join(names)
