"""Guard one session: judge its calls, sandbox its commands, and redact secrets in its text."""

from __future__ import annotations

import os
import socket
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import attrs
import msgspec
import trio
from hilum import (
    Agent,
    AnnouncedCalls,
    Command,
    Layer,
    Mode,
    Session,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    Verdict,
    allow,
    config_folder,
    hookimpl,
)
from hilum.events import ApprovalAsked, PluginEvent, PromptFrozen
from hilum.hooks import current_call

from hilum_guard import call_judge, content_policy
from hilum_guard.call_judge import JudgeRequest
from hilum_guard.command_paths import as_seen_by_commands
from hilum_guard.file_names import resolve_listed
from hilum_guard.hosts.known_hosts import KnownHosts
from hilum_guard.new_files import begin_in
from hilum_guard.protected_files import RESTRICTING_FILE
from hilum_guard.rules import held_denials, rule_files
from hilum_guard.rules.lasting_approvals import LastingApprovals
from hilum_guard.rules.tool_names import STANDARD, describe_tools
from hilum_guard.sandbox import session_sandbox
from hilum_guard.sandbox.bubblewrap import ENDED_EARLY
from hilum_guard.sandbox.early_trial import expects_command
from hilum_guard.sandbox.session_sandbox import ExtraAccess, ProtectedPaths
from hilum_guard.secrets.result_redaction import (
    ResultRedactor,
    explain_placeholder,
    is_long,
    read_path,
)
from hilum_guard.secrets.secret_paths import SecretFiles
from hilum_guard.settings import GuardSettings
from hilum_guard.watching.workspace_guard import WorkspaceGuard

if TYPE_CHECKING:
    from hilum_guard.rules.denied_paths import DeniedPaths
    from hilum_guard.rules.matching import Rule
    from hilum_guard.sandbox.enforcement import Enforcement

IN_FORCE = "guard.in_force"
"""The event with rules of the project that are in force for the first time in a session."""
HELD = "guard.held"
"""The event about rules that stay in force although no file contains them any more."""
LIFTED = "guard.lifted"
"""The event with which the user ends them."""
_NEVER_READ = ("never read",)
MAX_PROBLEMS_SHOWN = 10
MAX_PROBLEMS_LOGGED = 200
# Seconds after which a session that begins with a prompt has sent its first request.
_REQUEST_SECONDS = 1.0
# How long a closing session removes what killed sessions left; the next one removes the rest.
_SWEEP_SECONDS = 1.0
# What judges the first call and builds the first sandbox. The first request needs none of it.
_LATE_MODULES = (
    "hilum_guard.call_reader",
    "hilum_guard.hidden_effects",
    "hilum_guard.commands.bash_judge",
    "hilum_guard.gate",
    "hilum_guard.rules.denied_paths",
    "hilum_guard.rules.search_filter",
    "hilum_guard.dangers.call_dangers",
    "hilum_guard.dangers.unshown",
    "hilum_guard.sandbox.backends",
    "hilum_guard.sandbox.bubblewrap",
    "hilum_guard.sandbox.environment",
    "hilum_guard.sandbox.probe_cache",
)
_OUTCOMES = {
    "allow": "It would run.",
    "ask": "It would need approval; without a user to ask, it would be refused.",
}


class CallExplanation(NamedTuple):
    """A prediction of what would happen to a call, with the reason, for the user.

    Attributes:
        outcome: A sentence.
        reason: Why.
        source: The rule with its file, or the name of the check, that decides.
        scope: The rule that a lasting approval would create.
        commands: The simple commands in the command line.
    """

    outcome: str
    reason: str
    source: str
    scope: str = ""
    commands: tuple[str, ...] = ()


class UsedSecrets(NamedTuple):
    """The secret files that an approved command names and may therefore read.

    Attributes:
        command: The command text.
        folder: The folder that the command runs in.
        files: The files, resolved.
    """

    command: str
    folder: str
    files: frozenset[str]


class Guard:
    """The guard of one session.

    Args:
        session: The session.
        box: The sandbox for the session's commands.

    Attributes:
        sandbox: The sandbox for the session's commands.
        rules: The applicable rules, as of the most recent read.
        workspace_guard: The checker that undoes what commands leave in the workspace for other
            programs to execute.
    """

    def __init__(self, session: Session, box: session_sandbox.Sandbox) -> None:
        self._session = session
        self._config = config_folder()
        self._settings = session.settings(GuardSettings)
        self.sandbox = box
        self.workspace_guard = WorkspaceGuard(session, box)
        self.approvals = LastingApprovals(session, self._config)
        self.rules = rule_files.Rules(stamp=_NEVER_READ)
        self._logged_denials: set[Rule] = set()
        self._reported_problems: set[str] = set()
        self._redactor = ResultRedactor(session, self._config)
        self._known_hosts = KnownHosts(session)
        self._secret_files = SecretFiles()
        self._has_called = trio.Event()
        # The names of the tools when the rules were read.
        self._tools: frozenset[str] | None = None
        # The number of reads of the rules that have begun, and the number of the last accepted
        # read.
        self._begun = 0
        self._taken = 0
        # Functions that return files whose execution the user has approved, by the program that
        # executes them.
        self._executed: dict[str, Callable[[], Iterable[str]]] = {}
        # Secret files that calls in flight may read, by agent and call, and secret files that
        # plugins reveal.
        self._used_secrets: dict[tuple[str, str], UsedSecrets] = {}
        # What the sandbox enforced when the commands of calls in flight were judged.
        self._judged: dict[tuple[str, str], Enforcement] = {}
        self._revealed: dict[tuple[str, ...], frozenset[str]] = {}
        # The sandbox requests these files before each command, in a thread.
        box.extra_protected["rules that deny"] = self._find_denied_paths_to_protect
        box.extra_protected["secrets"] = self._find_secrets_to_hide
        box.find_used_secrets = self._find_used_secrets

    def find_temporary_folder(self) -> str:
        """Return the folder that the session's commands see as `/tmp`. Blocks.

        Returns:
            The folder; empty if the commands see that of this machine.
        """
        is_moved = self.sandbox.describe_kind() == "bubblewrap"
        return self.sandbox.temp if is_moved else ""

    def describe_confinement(self) -> str:
        """Return the kind of sandbox for the session's commands; empty if there is none."""
        return self.sandbox.describe_kind()

    def explain_refusal(self, output: str) -> str:
        """Return why the sandbox refused something to a failed command of the user.

        Args:
            output: The output of the command.

        Returns:
            A text for the user; empty if the output does not show such a refusal.
        """
        if not self.sandbox.describe_kind():
            return ""
        return self.workspace_guard.explain_refusal(output)

    # --- rules ------------------------------------------------------------------------------------

    async def reload(self) -> None:
        """Reload the rules if their files or the tools changed, and report mistakes."""
        number = self._begin_reading()
        request = self._make_request(None, "")
        rules = await trio.to_thread.run_sync(
            call_judge.read_rules, request, abandon_on_cancel=True
        )
        self._take_rules(rules, request, number)

    def _begin_reading(self) -> int:
        """Return a number for a read of the rules: a higher number means a later read."""
        self._begun += 1
        return self._begun

    def _take_rules(self, rules: rule_files.Rules, request: JudgeRequest, number: int) -> None:
        """Store the rules that a thread read, unless a later read has already finished."""
        if number < self._taken:
            return
        self._taken = number
        before = self.rules.mistakes
        self._note_denials(rules)
        self.rules = rules
        self._tools = request.names
        if rules.mistakes and rules.mistakes != before:
            say = f"The rules have mistakes; until they are corrected, {rules.consequence}:"
            listed = "".join(f"\n  {mistake}" for mistake in rules.mistakes)
            self._session.note("guard.mistakes", say=say + listed, mistakes=list(rules.mistakes))
        self._report_foreign(rules)
        self._report_unapplied(rules)

    def _report_unapplied(self, rules: rule_files.Rules) -> None:
        """Report restrictions of other agents that do not apply, each once."""
        new = [each for each in rules.foreign_unapplied if each not in self._reported_problems]
        if not new:
            return
        self._reported_problems.update(new)
        say = f"Not applied: {new[0]}"
        if len(new) > 1:
            listed = "".join(f"\n  {each}" for each in new[:MAX_PROBLEMS_SHOWN])
            say = f"{len(new)} restrictions of other agents are not applied:{listed}"
        self._session.note("guard.foreign_unapplied", say=say, unapplied=new[:MAX_PROBLEMS_LOGGED])

    def _note_denials(self, rules: rule_files.Rules) -> None:
        """Log the denials that are in force for the first time, and report those without a file."""
        root = self._session.workspace.root
        denials = held_denials.find_project_denials(rules, self._config, root)
        new = [rule for rule in denials if held_denials.identify(rule) not in self._logged_denials]
        if new:
            self._logged_denials.update(map(held_denials.identify, new))
            self._session.note(IN_FORCE, rules=held_denials.write_rules(new))
        known = set(map(held_denials.identify, self.rules.held))
        gone = [rule for rule in rules.held if held_denials.identify(rule) not in known]
        if gone:
            self._session.note(HELD, say=held_denials.describe_held(gone))

    def restore_denials(self) -> None:
        """Keep in force what was in force before the session was closed."""
        restored: list[Rule] = []
        for event in self._session.journal.since(0):
            if isinstance(event, PluginEvent) and event.name == IN_FORCE:
                restored += held_denials.read_rules(event.data["rules"])
            elif isinstance(event, PluginEvent) and event.name == LIFTED:
                restored.clear()
        self._logged_denials.update(map(held_denials.identify, restored))
        self.rules = self.rules._replace(rules=tuple(restored))

    @hookimpl(tryfirst=True)
    def interpret_prompt(self, text: str, agent_name: str) -> None:
        """End the denials that no file contains any more, if the user reads the rules again."""
        agent = self._session.agents.get(agent_name)
        # The prompts of sub-agents are written by models.
        if text.strip() != "/reload-rules" or (agent is not None and agent.parent):
            return
        held = self.rules.held
        self.rules = rule_files.Rules(stamp=_NEVER_READ)
        self._logged_denials.clear()
        say = ""
        if held:
            rows = held_denials.list_rules(held)[: held_denials.MAX_SHOWN]
            listed = "".join(f"\n  {row}" for row in rows)
            say = f"No longer in force, because no file contains it:{listed}"
        self._session.note(LIFTED, say=say)

    def _report_foreign(self, rules: rule_files.Rules) -> None:
        """Report new mistakes in the permission files of other agents."""
        new = [each for each in rules.foreign_problems if each not in self._reported_problems]
        if not new:
            return
        self._reported_problems.update(new)
        say = "The permissions of another agent are not fully readable:"
        say += "".join(f"\n  {problem}" for problem in new[:MAX_PROBLEMS_SHOWN])
        if len(new) > MAX_PROBLEMS_SHOWN:
            say += f"\n  and {len(new) - MAX_PROBLEMS_SHOWN} more"
        if rules.doubts:
            say += (
                "\nUntil this is corrected, every change needs approval. To ignore an agent's"
                " files, remove it from the setting guard.denials_from."
            )
        self._session.note("guard.foreign_problems", say=say, problems=new[:MAX_PROBLEMS_LOGGED])

    async def announce_foreign(self) -> None:
        """Tell the user, once for each project, which rules of other agents apply."""
        from hilum_guard.foreign.first_session import describe_first  # with the first session

        agents = tuple(self._settings.denials_from)
        root = self._session.workspace.root
        say = await trio.to_thread.run_sync(describe_first, root, self.rules, agents)
        if say:
            self._session.note("guard.foreign_found", say=say)

    def _list_tools(self) -> dict[str, str]:
        """Return the permission categories of all tools that rules can name."""
        return {**STANDARD, **{tool.name: tool.risk for tool in self._session.tools.values()}}

    # --- calls ------------------------------------------------------------------------------------

    async def judge(
        self,
        tool: Tool,
        arguments: str,
        key: tuple[str, str] | None = None,
        *,
        once_only: bool = False,
    ) -> tuple[Verdict | None, str]:
        """Judge a call.

        Args:
            tool: The tool.
            arguments: The tool's arguments, as JSON.
            key: The agent and the call's id, for the secret files that a command may read until its
                call ends; None for a call that will not run.
            once_only: Whether the user can approve only this call, because it is dangerous.

        Returns:
            The verdict (None for no opinion), and the rule or check that produced the verdict.
        """
        while True:
            number = self._begin_reading()
            request = self._make_request(tool, arguments, once_only=once_only)
            # One function does everything that reads the disk. It can be abandoned, because the
            # kernel treats a gate that takes too long as broken.
            judged, enforced = await self.sandbox.turns.run(
                partial(_judge_call, request, self.sandbox), abandon_on_cancel=True
            )
            self._take_rules(judged.rules, request, number)
            if judged.undecided:
                await self.sandbox.enforced()
            elif self._session.approve == request.approve:  # otherwise the policy has changed
                break
        if key is not None and judged.secrets and judged.call is not None:
            command = str(judged.call.facts.arguments["command"])
            folder = str(judged.call.folder or self._session.workspace.root)
            self._used_secrets[key] = UsedSecrets(command, folder, judged.secrets)
        if key is not None and judged.call is not None and judged.call.facts.command is not None:
            self._note_judged(key, enforced)
        verdict = judged.verdict
        if judged.effects:
            verdict = msgspec.structs.replace(
                verdict or allow(), effects=judged.effects, dangers=judged.dangers
            )
        return verdict, judged.source

    def _note_judged(self, key: tuple[str, str], enforced: Enforcement | None) -> None:
        """Note what the sandbox enforced when a command was judged.

        A command is judged again when it was approved. If the sandbox has become weaker in the
        meantime, the user approved it in the belief that the better one confines it.
        """
        earlier = self._judged.get(key)
        if enforced is not None and (earlier is None or enforced.covers(earlier)):
            self._judged[key] = enforced

    def _make_request(
        self, tool: Tool | None, arguments: str, *, once_only: bool = False
    ) -> JudgeRequest:
        is_network = tool is not None and tool.risk == "network"
        names = frozenset(self._session.redaction.names)
        return JudgeRequest(
            tool=tool,
            arguments=arguments,
            workspace=self._session.workspace,
            config=self._config,
            rules=self.rules,
            tools=self._tools,
            # While the session is opening, it has no tools, so the first call checks the names.
            names=frozenset(self._session.tools) or None,
            describe_tools=partial(describe_tools, dict(self._session.tools)),
            catalog=self._list_tools(),
            approve=self._session.approve,
            grants=self._session.grants,
            once_only=once_only,
            kind=self._session.kind,
            agents=tuple(self._settings.denials_from),
            # What is enforced is read in the thread.
            enforced=None,
            offline=self._settings.network == "none",
            find_temporary_folder=self.find_temporary_folder,
            run_unsandboxed=self._settings.unsandboxed == "run",
            known_hosts=self._known_hosts.read() if is_network else frozenset(),
            # The thread receives copies of the data, because the event loop adds to the originals.
            find_executed=partial(self._find_executed, dict(self._executed)),
            explain_placeholder=partial(explain_placeholder, self._redactor.files, names),
            carries_secret=self._redactor.carries_secret,
        )

    async def prepare_tests(self) -> None:
        """Read what the project's tests import after the first call, while the model works.

        A session may end without a call, and its first call is seldom a run of the tests.
        """
        await self._has_called.wait()
        await trio.sleep(_REQUEST_SECONDS)
        read = partial(_read_tests, str(self._session.workspace.root), self.find_temporary_folder)
        # Judging a command fails closed by itself, so that a failure here means nothing.
        with suppress(OSError, ValueError):
            await trio.to_thread.run_sync(read, abandon_on_cancel=True)

    async def explain(self, tool: Tool, arguments: str) -> CallExplanation:
        """Return a prediction of what the approval policy and the guard would do with a call.

        Args:
            tool: The tool.
            arguments: The tool's arguments, as JSON.
        """
        from hilum_guard.call_reader import read_call  # with the first call

        approve = self._session.approve
        if approve == "readonly" and tool.risk != "read":
            outcome = "It would be refused."
            return CallExplanation(outcome, f"{tool.name} can {tool.risk}.", "approve = readonly")
        verdict, source = await self.judge(tool, arguments)
        call = ToolCall("", tool.name, arguments)
        if await self._is_once_only(self._session.mode, call, tool, verdict):
            verdict, source = await self.judge(tool, arguments, once_only=True)
        if verdict is None:
            verdict = Verdict("allow", "No rule or check objects to it.")
        commands: tuple[str, ...] = ()
        with suppress(ToolError):
            parsed = await trio.to_thread.run_sync(
                read_call, tool, arguments, self._session.workspace
            )
            if parsed.facts.command is not None:
                commands = tuple(" ".join(each.words) for each in parsed.facts.command.commands)
        outcome = _OUTCOMES.get(verdict.kind, f"It would be refused ({verdict.code}).")
        source = f"{source}, approve = {approve}"
        return CallExplanation(outcome, verdict.reason, source, verdict.rule, commands)

    @hookimpl(tryfirst=True)
    async def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Judge a call."""
        # The guard is the first gate (tryfirst), so that other gates do not ask about a call that
        # is denied anyway.
        key = (agent.name, call.id)
        # A resumed session may begin with a call of an earlier request.
        self.sandbox.has_requested = True
        verdict, source = await self.judge(tool, call.arguments, key)
        self._has_called.set()
        await self._remember_placeholder(agent, call)
        once_only = await self._is_once_only(agent.mode, call, tool, verdict, agent.name)
        if once_only:
            # A rule that a lasting approval created does not cover a dangerous call.
            verdict, source = await self.judge(tool, call.arguments, key, once_only=True)
        if once_only and (verdict is None or verdict.kind != "deny"):
            verdict = msgspec.structs.replace(verdict or allow(), once_only=True)
        if verdict is None or verdict.kind != "ask":
            return verdict
        if source == RESTRICTING_FILE:
            # A lasting approval was given for something else.
            once_only = True
            verdict = msgspec.structs.replace(verdict, once_only=True)
        if source in ("protected file", RESTRICTING_FILE):
            # First, make inert the files that a killed session's command left: they must not be
            # mistaken for files that the user approves now.
            await self.workspace_guard.recover()
            await self.workspace_guard.expect(agent, call, tool)
        if source == "policy" and self._was_announced(call):
            # The user approved exactly this call, which no lasting approval may replace.
            reason = "You have approved this change already."
            return Verdict("allow", reason, settled=True, once_only=once_only)
        if source == "policy" and await self._is_run_by_auto(tool):
            verdict = msgspec.structs.replace(verdict, by_policy=True)
        if not verdict.scope:
            return verdict
        can_be_kept = bool(verdict.rule) and not once_only
        self.approvals.offer(call.id, verdict.scope, can_be_kept=can_be_kept)
        return verdict

    async def _is_run_by_auto(self, tool: Tool) -> bool:
        """Return whether a call that only the policy asks about would run under ``auto``."""
        # Nobody is advised to choose the policy in a session that a user attends.
        if self._session.attended:
            return False
        if tool.risk != "execute" or self._settings.unsandboxed == "run":
            return True
        enforced = await self.sandbox.enforced()
        return bool(enforced.files and enforced.protected)

    async def _is_once_only(
        self, mode: Mode, call: ToolCall, tool: Tool, verdict: Verdict | None, agent: str = ""
    ) -> bool:
        """Return whether the user can approve only this call, because it is dangerous."""
        from hilum_guard.dangers.call_dangers import find_dangers  # with the first question

        kind = "allow" if verdict is None else verdict.kind
        # The kernel may ask about a call that the guard allows.
        may_be_asked = tool.risk in mode.ask or self._session.approve == "ask_first"
        if kind == "deny" or (kind == "allow" and (tool.risk == "read" or not may_be_asked)):
            return False
        asked = ApprovalAsked(id="", call=call, risk=tool.risk, agent=agent)
        dangers = await trio.to_thread.run_sync(
            find_dangers, asked, self._session, abandon_on_cancel=True
        )
        return any(danger.grave for danger in dangers)

    def _was_announced(self, call: ToolCall) -> bool:
        announced = self._session.plugin(AnnouncedCalls)
        return announced is not None and announced.was_announced(call)

    async def _remember_placeholder(self, agent: Agent, call: ToolCall) -> None:
        """Remember a call's file if the model sees the call's arguments with a placeholder."""
        run = agent.conversation.run
        state = run.calls.get(call.id) if run else None
        path = read_path(call)
        if path and state is not None and state.withheld:
            await trio.to_thread.run_sync(self._redactor.remember_file, path)

    @hookimpl(trylast=True)
    def check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> Awaitable[ToolResult | None] | ToolResult | None:
        """Undo what a command left for other programs to run, and replace secrets in the result."""
        # The user's approval applied only to this call.
        self._used_secrets.pop((agent.name, call.id), None)
        self._judged.pop((agent.name, call.id), None)
        is_checked = self.workspace_guard.needs_check(agent, call, result)
        if is_checked or ENDED_EARLY in result.text or is_long(result):
            return self._check_result(agent, call, result)
        # No task is started, because most results are short, and of tools that only read.
        cleaned = self._redactor.redact_short_result(call, result)
        path = read_path(call)
        if cleaned is None or not path:
            return cleaned
        return self._remember_redacted(path, cleaned)

    async def _remember_redacted(self, path: str, cleaned: ToolResult) -> ToolResult:
        await trio.to_thread.run_sync(self._redactor.remember_file, path)
        return cleaned

    async def _check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> ToolResult | None:
        if ENDED_EARLY in result.text:
            # A kept result of trying the sandbox may no longer apply. If a command only printed
            # this sentence, the sandbox is tried once more, which does no harm.
            await trio.to_thread.run_sync(self.sandbox.distrust)
        checked = await self.workspace_guard.check_result(agent, call, result)
        # The guard runs last (trylast), so that no other plugin adds a secret after the search.
        cleaned = await self._redactor.redact_result(call, checked or result)
        path = read_path(call)
        if cleaned is not None and path:
            return await self._remember_redacted(path, cleaned)
        return cleaned or checked

    # --- secrets ----------------------------------------------------------------------------------

    @hookimpl(trylast=True)
    def redact_texts(self, texts: Sequence[str], origin: str) -> list[str] | None:
        """Replace secrets in an event's text before the event is logged. Threads may call it."""
        if origin == "prompt" and not self._settings.redact_prompts:
            return None
        return self._redactor.redact_texts(texts, origin)

    def redact(self, text: str, path: str = "") -> str:
        """Return text without secrets (see ``hilum.ContentPolicy``). Threads may call it."""
        return self._redactor.redact(text, path)

    def find_stored_approvals(self, scopes: Collection[str]) -> list[str]:
        """Return which scopes are stored as rules (see ``hilum.services.StoredApprovals``)."""
        return self.approvals.find_stored(scopes)

    def remove_stored_approval(self, scope: str) -> bool:
        """Remove the rule for a scope (see ``hilum.services.StoredApprovals``)."""
        return self.approvals.remove_stored(scope)

    # The services of ``hilum.ContentPolicy`` that do not depend on the session.
    make_redactor = staticmethod(content_policy.make_redactor)
    explain_withheld_file = staticmethod(content_policy.explain_withheld_file)
    explain_unsafe_repository = staticmethod(content_policy.explain_unsafe_repository)

    def withheld(self, base: str) -> Callable[[str], bool]:
        """Return a function that checks whether a search leaves a file out.

        The rules are those of the most recently judged call, which is the search itself.

        Args:
            base: The path that the search covers, relative to the workspace. The call was judged
                with this path, so any approval that the path needs has been given.
        """
        from hilum_guard.rules.search_filter import make_filter  # with the first search

        return make_filter(self.rules, base, self._session.workspace.root, self._list_tools())

    def _find_used_secrets(self, argv: tuple[str, ...], folder: str) -> frozenset[str]:
        """Return the hidden files that a command in a folder may read with the user's approval."""
        if not argv:
            return frozenset()
        # The shell's last argument is the command text.
        wanted = (argv[-1], os.path.realpath(folder))
        found = set(self._revealed.get(argv, ()))
        for used in self._used_secrets.values():
            if (used.command, used.folder) == wanted:
                found |= used.files
        return frozenset(found)

    @contextmanager
    def reveal(self, argv: Sequence[str], paths: Iterable[str]) -> Iterator[None]:
        """Allow one command to read hidden files during the `with` block.

        Use this method only for files that the user allowed the command to read, or for a command
        that only lists names.

        Args:
            argv: Program and arguments, exactly as passed to ``session.processes`` in the block.
            paths: The files, resolved.
        """
        self._revealed[(*argv,)] = frozenset(paths)
        try:
            yield
        finally:
            self._revealed.pop((*argv,), None)

    def _find_secrets_to_hide(self) -> ProtectedPaths:
        """Return the workspace files that are hidden from commands. Blocks."""
        from hilum_guard.rules.patterns import exact_path  # with the first command

        root = str(self._session.workspace.root)
        shown = resolve_listed(self._settings.readable, root)
        rules = self.rules.of("allow")
        named = {rule.pattern for rule in rules if rule.tool in ("read_file", "read")}
        # The sandbox has just had the workspace scanned for this command.
        scanned = self.sandbox.watch.scanned
        find = partial(self._secret_files.of_workspace, scanned=scanned)
        hidden = []
        roots = map(str, self._session.workspace.roots)
        for path in chain.from_iterable(map(find, roots)):
            relative = self._session.workspace.relative(path)
            real = os.path.realpath(path)
            if real not in shown and not named & {relative, exact_path(relative)}:
                hidden.append(real)
        return ProtectedPaths(hidden=tuple(hidden))

    # --- processes --------------------------------------------------------------------------------

    def denied_to_commands(self) -> tuple[str, ...]:
        """Return the existing paths that the sandbox hides because rules prevent reading them.

        Blocks.
        """
        return self._find_denied_paths().hidden

    def _find_denied_paths_to_protect(self) -> ProtectedPaths:
        # Without such rules, the first prompt need not wait until the modules that match rules are
        # imported.
        if not any(self.rules.of("deny")):
            return ProtectedPaths()
        denied = self._find_denied_paths()
        rules = {path: rule.located for path, rule in denied.rules.items()}
        return ProtectedPaths(denied.protected, denied.hidden, rules)

    def _find_denied_paths(self) -> DeniedPaths:
        from hilum_guard.rules.denied_paths import find_denied_paths  # with the first command

        roots = self._session.workspace.roots
        return find_denied_paths(self.rules.of("deny"), roots, self._list_tools())

    def protect(self, name: str, paths: Callable[[], ProtectedPaths] | None) -> None:
        """Protect paths from all later commands in the session.

        The sandbox enforces the protection, as far as this system supports it.

        Args:
            name: Name of the requester; a later call with the same name replaces an earlier one.
            paths: Returns the paths. A thread calls this function before each command, so it may
                read the disk. ``None`` ends the protection.
        """
        if paths is None:
            self.sandbox.extra_protected.pop(name, None)
        else:
            self.sandbox.extra_protected[name] = paths

    def protect_executed(self, by: str, paths: Callable[[], Iterable[str]]) -> None:
        """Protect files whose execution the user has approved.

        Commands cannot write to these files, and file tools need approval to do so.

        Args:
            by: A description of the program that executes them; a later call with the same value
                replaces an earlier one.
            paths: Returns the files, absolute and resolved. A thread calls this function, so it may
                block.
        """
        self._executed[by] = paths
        self.sandbox.extra_protected[by] = lambda: ProtectedPaths(tuple(paths()))

    def _find_executed(
        self, executed: Mapping[str, Callable[[], Iterable[str]]]
    ) -> tuple[tuple[str, str], ...]:
        """Return the files that are executed although their names do not suggest it.

        Blocks.

        Args:
            executed: Functions that return such files, by the program that executes them.

        Returns:
            Each file with the program that executes it.
        """
        named = self.sandbox.watch.named_files()
        found = [(path, "Git, as its configuration says") for path in named]
        for by, paths in executed.items():
            found += [(path, by) for path in paths()]
        return tuple(found)

    @contextmanager
    def widen(self, argv: Sequence[str], extra: ExtraAccess) -> Iterator[None]:
        """Grant one command extra permissions, which the user approved, during the `with` block.

        Args:
            argv: Program and arguments, exactly as passed to ``session.processes`` in the block.
            extra: What it may do.
        """
        self.sandbox.extra_access[(*argv,)] = extra
        try:
            yield
        finally:
            self.sandbox.extra_access.pop((*argv,), None)

    async def open_listener(self, *, network: bool = False) -> socket.socket:
        """Return a socket on which hilum listens at 127.0.0.1 for the commands of this session.

        The arguments and errors are those of ``Sandbox.open_listener``.
        """
        return await self.sandbox.open_listener(network=network)

    async def find_missing_protection(self) -> tuple[str, ...]:
        """Return why commands are not fully sandboxed, one sentence each; empty if they are."""
        enforced = await self.sandbox.enforced()
        if enforced.whole:
            return ()
        return enforced.reasons or ("The sandbox does not enforce everything.",)

    @hookimpl(trylast=True)
    async def wrap_process(self, command: Command) -> Command:
        """Wrap a command in the sandbox, with a clean environment."""
        # The guard runs last (trylast), so that no other plugin changes what the sandbox runs.
        return await self.sandbox.wrap_process(command, self._judged.get(current_call()))

    @hookimpl
    def build_prompt_layer(self, agent: Agent) -> Layer:
        """Return the part of the system prompt that describes where commands run."""
        run = agent.conversation.run
        if self.sandbox.spares is not None and run is not None:
            # The kernel asks for layers before each model request.
            self.sandbox.spares.note_model_request(run.id)
        return self.sandbox.build_prompt_layer()


def _judge_call(
    request: call_judge.JudgeRequest, box: session_sandbox.Sandbox
) -> tuple[call_judge.Judgement, Enforcement | None]:
    """Judge a call by what the sandbox enforces, and return this, too. Blocks."""
    enforced = box.known
    return call_judge.judge(attrs.evolve(request, enforced=enforced)), enforced


def _read_tests(root: str, find_temporary_folder: Callable[[], str]) -> None:
    from hilum_guard.commands.loaded_files import find_loaded  # with the first call

    top = os.path.realpath(root)
    with as_seen_by_commands(find_temporary_folder(), root):
        find_loaded("pytest", ("pytest",), (top,), {}, top)


async def work_behind_request(session: Session, box: session_sandbox.Sandbox) -> None:
    """Prepare for the session's commands, and remove what killed sessions left, in threads.

    If a prompt follows at once, its request goes first: it would take 10 ms longer.
    The removal may take a long time, so a closing session soon abandons it; the next session removes
    the rest.
    """
    expects_prompt = session.kernel.expects_prompt
    if not expects_prompt:
        await _sweep()
    # The request is sent within milliseconds of this event.
    async for _ in session.events(session.began_at, kinds=(PromptFrozen,)):
        break
    box.has_requested = True
    if expects_command(session.kernel):
        await box.prepare_network()
    with suppress(OSError):
        await trio.to_thread.run_sync(box.watch.scan_ahead, abandon_on_cancel=True)
    await session.wait_for_request()
    with suppress(OSError):
        await trio.to_thread.run_sync(box.search_ahead, abandon_on_cancel=True)
    # The first call reads the parameters of all tools, also of those that the model does not know
    # yet. If those of one cannot be read, the call reports it.
    with suppress(Exception):
        await trio.to_thread.run_sync(describe_tools, dict(session.tools), abandon_on_cancel=True)
    if expects_prompt:
        await _sweep()


async def _sweep() -> None:
    with suppress(OSError):
        await trio.to_thread.run_sync(session_sandbox.sweep, abandon_on_cancel=True)


@asynccontextmanager
async def open_guard(session: Session) -> AsyncIterator[Guard]:
    """Open a session's guard; on exit, stop everything that the guard started."""
    begin_in(str(session.workspace.root))
    session.import_later(*_LATE_MODULES)
    async with session_sandbox.open_sandbox(session) as box:
        guard = Guard(session, box)
        guard.restore_denials()
        await guard.reload()
        await guard.announce_foreign()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(guard.approvals.follow)
            nursery.start_soon(guard.prepare_tests)
            guard.workspace_guard.start(nursery)
            # The recovery runs before any command in the session, so that files that a killed
            # session left are not mistaken for the user's files.
            await guard.workspace_guard.recover()
            nursery.start_soon(work_behind_request, session, box)
            if box.spares is not None:
                nursery.start_soon(box.spares.run)
            yield guard
            guard.workspace_guard.stop()
            nursery.cancel_scope.cancel()
        # What a killed session left is removed even if this one was too short for it.
        with trio.move_on_after(_SWEEP_SECONDS), suppress(OSError):
            await trio.to_thread.run_sync(session_sandbox.sweep, abandon_on_cancel=True)
        await guard.approvals.finish()
