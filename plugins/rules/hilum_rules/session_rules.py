"""Shows a session's rules to the model, reloads them, and judges calls and answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import hilum_checks
import msgspec
import trio
from hilum import (
    Agent,
    AssistantMessage,
    ContextRequest,
    Interpretation,
    Layer,
    PromptCommand,
    Tool,
    ToolCall,
    ToolResult,
    Verdict,
    ask,
    deny,
    hookimpl,
)
from hilum.errors import HilumError
from hilum.events import AnyEvent, PluginEvent

from hilum_rules.discovery import list_patterns
from hilum_rules.prompt_layers import REMINDER, build_layers

if TYPE_CHECKING:
    from hilum import Session
    from hilum_checks.call_history import CallHistory

    from hilum_rules.held_checks import HeldChecks
    from hilum_rules.rule import Bundle, Rule
    from hilum_rules.rule_store import RuleStore, Snapshot

T = TypeVar("T")
PATH_PARAMETERS = frozenset(
    "path paths file files file_path folder directory cwd working_directory".split()
)
"""Tool parameters that name files, besides those that a tool declares as written."""
COMMAND_PARAMETERS = ("command", "text")
"""Tool parameters that contain command lines, or input of a running program."""
MAX_WORDS = 50
"""Maximum number of paths to find in a prompt."""
MAX_SUBJECT = 20_000
"""Maximum number of characters to search for paths in a prompt."""
MAX_OPEN = 100
"""Maximum number of open files to consider."""
MAX_LISTED = 20
"""Maximum number of lifted checks to list."""
LAYER = "rules "
IN_FORCE = "rules.in_force"
"""The event with checks that are in force for the first time in a session."""
HELD = "rules.held"
"""The event about checks that hold although their rules are no longer in a file."""
LIFTED = "rules.lifted"
"""The event about held checks that the user has lifted."""
# Parts of the names of all rules files of projects; most calls contain none of them.
_RULES_FILE = re.compile(
    r"agents?\.(?:override\.)?md|claude(?:\.local)?\.md|gemini\.md|\.(?:claude|cursor|github|junie|hilum"
    r"|windsurf|cline|roo|kiro)",
    re.IGNORECASE,
)
COMMAND = PromptCommand(
    "reload-rules", "Read the rules files again, and lift checks that are in no file any more"
)


class Rules:
    """The rules of a session. Other plugins access these rules with ``session.plugin(Rules)``.

    Args:
        session: The session.
        store: The session's loaded rules.

    Attributes:
        store: The same. Other plugins may use it while the session opens, and not later, because
            only one thread may use it at a time.
    """

    def __init__(self, session: Session, store: RuleStore) -> None:
        self.session = session
        self._root = session.workspace.root
        self.store = store
        self._reported = store.snapshot
        # The prompt layers, and the rules from which they were made.
        self._layers: list[Layer] = []
        self._shown: Snapshot | None = None
        self._lock = trio.Lock()
        self._restored: set[str] = set()
        self._protects = False
        self._history: CallHistory | None = None
        # The last event of the log that was read.
        self._last_read = 0
        # Whether an answer to the present prompt was refused because something had not been done,
        # and the last write about which the user has been told.
        self._has_objected = False
        self._objected_at = 0
        self._held: HeldChecks | None = None
        # The rules files whose checks were in force before the session was resumed. Those of nested
        # folders are read only when they are used.
        self._resumed_paths: set[str] = set()
        # The locks that cannot be read and about which the user has been told.
        self._announced: set[str] = set()
        self._restore()
        self._announce_unreadable()
        session.import_later("hilum_checks.used_paths")
        if self._enforced():
            session.import_later(
                "hilum_checks.verdicts",
                "hilum_checks.call_history",
                "hilum_checks.sandbox_paths",
                "hilum_rules.file_changes",
            )

    @property
    def bundle(self) -> Bundle:
        """The currently active rules."""
        return self.store.snapshot.bundle

    @property
    def snapshot(self) -> Snapshot:
        """All rules with their numbers, including inactive ones."""
        return self.store.snapshot

    def refusal(self, name_or_path: str) -> str:
        """Return why rules exclude something from this kind of session.

        Args:
            name_or_path: A file, or something that a plugin loads by name, such as ``memory``.

        Returns:
            The reason; empty if this kind of session may load the item.
        """
        rules = self._enforced()
        return hilum_checks.check_context(rules, name_or_path, self.session.kind) if rules else ""

    def _enforced(self) -> list[Rule]:
        """Return the rules whose checks are in force, also those that are no longer in a file."""
        rules = [rule for rule in self.bundle.rules if rule.is_enforced]
        return [*rules, *self._held.rules] if self._held else rules

    def _restore(self) -> None:
        """Keep the checks in force that were kept in force in a session that is resumed."""
        for event in self._read_new_events():
            if not isinstance(event, PluginEvent):
                continue
            if event.name in (HELD, IN_FORCE):
                held = self._open_held()
                paths = held.restore(event.data, is_reported=event.name == HELD)
                self._resumed_paths.update(filter(_is_inside, paths))
            elif event.name == LIFTED:
                self._held = None
        self._hold()

    def _read_new_events(self) -> Iterator[AnyEvent]:
        """Yield the events of the log since the last time."""
        while events := self.session.journal.since(self._last_read):
            self._last_read = events[-1].seq
            yield from events

    def _open_held(self) -> HeldChecks:
        """Return the checks that stay in force, whose module most sessions do not need."""
        if self._held is None:
            from hilum_rules.held_checks import HeldChecks

            self._held = HeldChecks()
        return self._held

    def _hold(self) -> None:
        """Keep the checks in force, although their files may change."""
        if self._held or any(rule.is_enforced for rule in self.bundle.rules):
            self._open_held().take(self.snapshot.active)

    def _announce_unreadable(self) -> None:
        """Report locks that cannot be read, so that every change needs approval."""
        unreadable = {rule.path for rule in self.bundle.rules if rule.is_passing}
        new = unreadable - self._announced
        messages = [str(problem) for problem in self.snapshot.problems if problem.path in new]
        self._announced = unreadable
        if messages:
            self.session.note("rules.unreadable_lock", say="\n".join(messages[:MAX_LISTED]))

    def _report_checks(self, held: HeldChecks) -> None:
        """Report checks that are in no file any more, and log those in force for the first time."""
        new = held.take_unreported()
        if new:
            self.session.note(HELD, say=held.describe(new), checks=msgspec.to_builtins(new))
        for checks in held.take_unlogged():
            self.session.note(IN_FORCE, checks=msgspec.to_builtins(checks))

    async def _run_in_thread(self, cause: str, work: Callable[..., T], *arguments: Any) -> T:
        """Run a function on the rules in a thread, one at a time, and report resulting changes."""
        # The store may be used by only one thread at a time, but several agents judge calls at
        # once.
        async with self._lock:
            if self._resumed_paths:
                await trio.to_thread.run_sync(self.store.touch, self._resumed_paths)
                self._resumed_paths = set()
            result = await trio.to_thread.run_sync(work, *arguments)
            self._hold()
            self._report(cause)
            if self._held:
                self._report_checks(self._held)
            self._announce_unreadable()
        self._protect_paths()
        return result

    def _protect_paths(self) -> None:
        """Protect paths, through the guard's sandbox, from programs that write files."""
        if self._protects or not self._enforced():
            return
        from hilum_guard import Guard, ProtectedPaths

        guard = self.session.plugin(Guard)
        if guard:
            # The flag is set before the call, so that paths are registered only once; the
            # registered function reads the current rules.
            self._protects = True

            def find_paths() -> ProtectedPaths:
                rules = self._enforced()
                protected, hidden = hilum_checks.find_protected_paths(rules, self._root)
                paths = (*protected, *hidden)
                named = hilum_checks.name_protecting_rules(rules, self._root, paths)
                return ProtectedPaths(protected, hidden, named)

            guard.protect("rules", find_paths)

    def _report(self, cause: str) -> None:
        """Log how the active rules differ from those reported last, if they do."""
        before = self._reported
        now = self.snapshot
        self._reported = now
        if before.bundle.source_hash == now.bundle.source_hash:
            return
        old = {file.path: file.source_hash for file in before.active}
        new = {file.path: file.source_hash for file in now.active}
        self.session.note(
            "rules.policy_reload",
            cause=cause,
            files=[path for path, digest in new.items() if old.get(path, digest) != digest],
            added_files=[path for path in new if path not in old],
            removed_files=[path for path in old if path not in new],
            added=_describe_missing(now.bundle, before.bundle),
            removed=_describe_missing(before.bundle, now.bundle),
            source_hash=now.bundle.source_hash,
        )

    # --- what the user commands -------------------------------------------------------------------

    @hookimpl
    def list_commands(self) -> list[PromptCommand]:
        """List the command ``/reload-rules``."""
        return [COMMAND]

    @hookimpl
    async def interpret_prompt(self, text: str, agent_name: str) -> Interpretation | None:
        """Carry out ``/reload-rules``."""
        # A space before the command makes it plain text.
        if text.split(None, 1)[:1] != [f"/{COMMAND.name}"] or not text.startswith("/"):
            return None
        agent = self.session.agents.get(agent_name)
        # The prompts of sub-agents are written by models.
        if agent is not None and agent.parent:
            return None
        return Interpretation(text, reply=await self._reload())

    async def _reload(self) -> str:
        """Read all rules files as at the start of a session; return what has changed."""
        async with self._lock:
            await trio.to_thread.run_sync(self.store.reload)
            lifted = []
            if self._held:
                self._hold()
                lifted = self._held.list_gone()
                self._held = None
                # The checks in force from now on come later in the log.
                self.session.note(LIFTED, sentences=[rule.sentence[:300] for rule in lifted])
        await self._run_in_thread("reloaded", self.store.refresh)
        rules = self.bundle.rules
        lines = [f"Read again: {len(rules)} rules, {len(self._enforced())} of them enforced."]
        if lifted:
            lines.append("No longer enforced, because no file contains it:")
            lines += [f"  {rule.path}: {rule.sentence[:300]}" for rule in lifted[:MAX_LISTED]]
            if len(lifted) > MAX_LISTED:
                lines.append(f"  and {len(lifted) - MAX_LISTED} more")
        return "\n".join(lines)

    # --- what the model reads ---------------------------------------------------------------------

    @hookimpl
    async def gather_context(self, agent: Agent, request: ContextRequest) -> None:
        """Activate the rules for files that the user names or has open."""
        if not agent.parent:
            self._has_objected = False
        opened = list(islice(_open_files(request.state), MAX_OPEN))
        await self._run_in_thread("named", self._use, request.typed, request.subject, opened)

    def _use(self, typed: str, subject: str, opened: list[str]) -> None:
        pattern = r"(?<![\w./~-])[\w./~-]*[\w-](?:\.\w{1,8}\b|/)"
        words = re.findall(pattern, subject[:MAX_SUBJECT])[:MAX_WORDS]
        self.store.name(typed)
        self.store.touch(self._inside([*opened, *words]))

    @hookimpl
    def build_prompt_layer(
        self, agent: Agent
    ) -> list[Layer] | Awaitable[list[Layer] | None] | None:
        """Return the rules as prompt layers. A change on disk takes effect in this turn."""
        is_known = agent.name in self._restored and not self._lock.locked()
        # A task and a thread for each turn would cost more than the look itself.
        if is_known and self.store.is_surely_unchanged():
            return self._make_layers(reloaded=False)
        return self._refresh_layers(agent)

    async def _refresh_layers(self, agent: Agent) -> list[Layer] | None:
        if agent.name not in self._restored:
            # A resumed conversation uses rules in nested folders that no call in this process has
            # named.
            self._restored.add(agent.name)
            known = _known_files(agent)
            if known:
                await self._run_in_thread("resumed", self.store.touch, known)
        return self._make_layers(reloaded=await self._run_in_thread("changed", self.store.refresh))

    def _make_layers(self, *, reloaded: bool) -> list[Layer] | None:
        snapshot = self.snapshot
        self.session.note(
            "rules.policy_check", reloaded=reloaded, source_hash=snapshot.bundle.source_hash
        )
        # The layers stay the same while nothing changes, so the prompt keeps its stable prefix.
        if self._shown is not snapshot:
            self._layers = build_layers(snapshot, self.store.settings.prompt_limit)
            self._shown = snapshot
        return self._layers or None

    @hookimpl
    def remind(self, agent: Agent, results: Sequence[ToolResult]) -> str | None:
        """Remind the model of the rules, if any, always in the same words."""
        return REMINDER if self.store.settings.remind and self.bundle.rules else None

    # --- what is enforced -------------------------------------------------------------------------

    @hookimpl
    def on_tool_call(
        self, agent: Agent, call: ToolCall, tool: Tool
    ) -> Awaitable[Verdict | None] | None:
        """Judge a call by the active rules.

        The active rules include those in a nested folder that the call uses for the first time.
        """
        named = list(_named_paths(call, tool))
        may_break_rules = self._enforced() or self._may_add_rules(call, tool)
        # Most calls use a folder that was used before, and need no thread.
        if not may_break_rules and self._uses_known_folders(call, tool) and self._touch(named):
            return None
        return self._run_in_thread("touched", self._judge, agent, call, tool, named)

    def _touch(self, named: list[str]) -> bool:
        """Record the paths of a call without a thread; return whether this was possible."""
        if not named:
            return True
        return not self._lock.locked() and self.store.touch_known(self._inside(named))

    def _judge(self, agent: Agent, call: ToolCall, tool: Tool, named: list[str]) -> Verdict | None:
        inside = self._inside(named)
        # The paths are recorded before the rules are read, because a nested folder's rules apply
        # even to the first call that uses the folder.
        self.store.touch(inside)
        verdicts: list[Verdict | None] = []
        with self._as_seen_by_commands():
            if not self._uses_known_folders(call, tool):
                self._touch_folders(call, inside)
            self._hold()
            rules = self._enforced()
            if rules:
                history = self._update_history() if hilum_checks.needs_history(rules) else None
                verdicts.append(hilum_checks.judge_call(rules, agent, call, tool, history))
            if tool.risk == "read":
                verdicts += map(deny, filter(None, map(self.refusal, inside)))
            else:
                verdicts += map(ask, self._explain_changes_of_rules(rules, agent, call, tool))
        # The strictest verdict wins, regardless of the order of the checks.
        return max(filter(None, verdicts), key=lambda verdict: verdict.rank, default=None)

    def _uses_known_folders(self, call: ToolCall, tool: Tool) -> bool:
        """Return whether a call runs no command that may use a folder for the first time."""
        if tool.risk != "execute":
            return True
        return all(map(self.store.names_known_folders, _command_texts(call)))

    def _touch_folders(self, call: ToolCall, named: list[str]) -> None:
        """Record the files and folders that the commands of a call use. Blocks."""
        folder = self._root.joinpath(*named[:1])
        for command in _command_texts(call):
            used = list(hilum_checks.find_used_paths(command, self._root, folder))
            self.store.touch(self._inside(dict.fromkeys(each.path for each in used)))
            for below in self._inside(dict.fromkeys(each.path for each in used if each.deep)):
                self.store.touch_below(below)

    def _as_seen_by_commands(self) -> AbstractContextManager[None]:
        """Find files where the session's commands find them, whose `/tmp` is another folder."""
        from hilum_guard import Guard, as_seen_by_commands

        guard = self.session.plugin(Guard)
        folder = guard.find_temporary_folder() if guard else ""
        return as_seen_by_commands(folder, str(self._root))

    def _explain_changes_of_rules(
        self, rules: list[Rule], agent: Agent, call: ToolCall, tool: Tool
    ) -> Iterator[str]:
        """Yield why the user is asked about a call that may change the rules."""
        # An agent must not rewrite or replace the rules that restrict it.
        paths = self._relative(self.store.enforced_sources()) if rules else []
        rewrite = hilum_checks.describe_rewrite(paths, agent, call, tool) if paths else ""
        if rewrite:
            yield f"The agent wants to change rules that are enforced: {rewrite}."
        # A new file could keep the others out of the prompts of later sessions, or replace them.
        is_project = any(file.origin == "project" and file.rules for file in self.snapshot.active)
        if is_project and self._may_add_rules(call, tool):
            created = hilum_checks.describe_creation(list_patterns(), agent, call, tool)
            if created:
                yield f"The agent wants to add rules to the project: {created}."
        if self._held and self._held.is_full:
            yield (
                "More enforced rules have been read in this session than can be kept. The user can"
                " enter /reload-rules."
            )

    def _may_add_rules(self, call: ToolCall, tool: Tool) -> bool:
        """Return whether a call may create a rules file although the project has rules already.

        A look at its arguments is enough, so that other calls need no thread.
        """
        if tool.risk == "read" or not self.bundle.rules:
            return False
        return _RULES_FILE.search(call.arguments) is not None

    @hookimpl
    def check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> Awaitable[None] | None:
        """Remember what the call did, for rules that require something to be done first."""
        tool = self.session.tools.get(call.name)
        if tool is None or tool.risk not in ("read", "write", "execute"):
            return None
        rules = self._enforced()
        if not rules:
            # The import of what judges rules would take 60 ms.
            return None
        needs = hilum_checks.needs_reads if tool.risk == "read" else hilum_checks.needs_history
        return self._remember(tool, call, result) if needs(rules) else None

    async def _remember(self, tool: Tool, call: ToolCall, result: ToolResult) -> None:
        async with self._lock:
            history = self._open_history()
            await trio.to_thread.run_sync(history.add, tool, call.arguments, self._root, result)

    def _update_history(self) -> CallHistory:
        """Return the history of calls with what programs have written, in a thread."""
        from hilum_rules.file_changes import read_changed_files

        history = self._open_history()
        events = trio.from_thread.run_sync(list, self._read_new_events())
        for changed in read_changed_files(events, self._root):
            history.add_changes(changed.call_id, changed.paths, self._root)
        return history

    def _open_history(self) -> CallHistory:
        """Return the history of calls, whose module most sessions do not need."""
        if self._history is None:
            from hilum_checks.call_history import CallHistory

            files = [file for file in self.snapshot.active if not file.is_excluded]
            given = [path for file in files for path in file.sources]
            self._history = CallHistory(given)
        return self._history

    @hookimpl
    async def check_answer(self, agent: Agent, message: AssistantMessage) -> str | None:
        """Return why a rule forbids a final answer."""
        rules = self._enforced()
        if not rules:
            return None
        # A thread judges the answer, because matching a rule's regular expression may take up to
        # ``MATCH_TIMEOUT`` seconds.
        objection = await trio.to_thread.run_sync(hilum_checks.judge_answer, rules, message.text)
        # A sub-agent need not finish the work, and may be unable to run commands.
        if objection or self._history is None or agent.parent:
            return objection
        return await self._object_once(self._history, rules)

    async def _object_once(self, history: CallHistory, rules: list[Rule]) -> str | None:
        """Return what must still be done before an answer, once for each prompt.

        A command may be impossible to run, so a second answer is let through, and the user is told.
        """
        async with self._lock:
            await trio.to_thread.run_sync(self._update_history)
            due = await trio.to_thread.run_sync(hilum_checks.find_due, rules, history, self._root)
        is_new = history.last_write > self._objected_at
        if due and is_new and not self._has_objected:
            self._has_objected = True
            return "\n".join(hilum_checks.describe_due(rule, each) for rule, each in due)
        history.note_answer()
        if due and is_new:
            self._objected_at = history.last_write
            undone = [f"{rule.path}:{rule.line}: {rule.sentence[:300]}" for rule, _ in due]
            message = (
                "After its last change, the agent has not done what these rules require. Ask it to"
                " do so, or do it yourself:"
            )
            self.session.note("rules.not_done", say="\n".join([message, *undone[:MAX_LISTED]]))
        return None

    def _inside(self, names: Iterable[str]) -> list[str]:
        """Return the resolved paths in the workspace, relative to its root. Blocks."""
        found = []
        for name in names:
            with suppress(HilumError):
                found.append(self.session.workspace.resolve(name))
        return self._relative(found)

    def _relative(self, paths: Iterable[Path]) -> list[str]:
        """Return the paths that are in the workspace, relative to its root."""
        return [
            path.relative_to(self._root).as_posix()
            for path in paths
            if path.is_relative_to(self._root)
        ]


def _describe_missing(bundle: Bundle, other: Bundle) -> list[str]:
    """Describe the rules in ``bundle`` that are not in ``other``."""
    known = {rule.id for rule in other.rules}
    return [
        f"{rule.path}:{rule.line}: {rule.sentence[:160]}"
        for rule in bundle.rules
        if rule.id not in known
    ]


def _read_arguments(call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments by name; a call with malformed arguments does not run."""
    try:
        return msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
    except ValueError:
        return {}


def _command_texts(call: ToolCall) -> list[str]:
    """Return the command lines in the arguments of a call that executes."""
    arguments = _read_arguments(call)
    return [text for text in map(arguments.get, COMMAND_PARAMETERS) if isinstance(text, str)]


def _named_paths(call: ToolCall, tool: Tool) -> Iterator[str]:
    """Yield the paths in a call's arguments."""
    for name, value in _read_arguments(call).items():
        if name in PATH_PARAMETERS or name in tool.writes:
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, str):
                    yield path


def _open_files(state: dict[str, Any]) -> Iterator[str]:
    """Yield the files that the user has open, as reported by the user interface."""
    opened = state.get("open_files")
    for file in opened if isinstance(opened, list | tuple) else ():
        path = file.get("path") if isinstance(file, dict) else file
        if isinstance(path, str) and path:
            yield path


def _known_files(agent: Agent) -> list[str]:
    """Return the rules files in the workspace that a resumed conversation has used."""
    conversation = agent.conversation
    texts = {layer.name: layer.text for layer in conversation.frozen.layers} | conversation.told
    names = [
        name.removeprefix(LAYER) for name, text in texts.items() if text and name.startswith(LAYER)
    ]
    return list(filter(_is_inside, names))


def _is_inside(name: str) -> bool:
    """Return whether the displayed path of a rules file is in the workspace."""
    return not name.startswith(("/", "~", "..", "settings:"))
