"""The half of a session: holds its rules, shows them to the model, reloads them, and has calls and
answers judged by them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from hilum import (
    Agent,
    AssistantMessage,
    ContextRequest,
    Layer,
    Tool,
    ToolCall,
    ToolResult,
    Verdict,
    ask,
    deny,
    hookimpl,
)
from hilum.errors import HilumError

from hilum_rules.layers import REMINDER, layers

if TYPE_CHECKING:
    from hilum import Session

    from hilum_rules.current import Current, Snapshot
    from hilum_rules.rule import Bundle, Rule

T = TypeVar("T")
PATHS = frozenset({"path", "paths", "file", "files", "file_path", "folder", "directory", "cwd"})
"""Parameters of tools that name what a call has in hand, besides those that a tool says it
writes.
"""
MOST_WORDS = 50
MOST_OPEN = 100
LAYER = "rules "


class Rules:
    """See the module. Other plugins reach it by ``session.half(Rules)``.

    Args:
        session: The session.
        current: Its rules, loaded.
        limit: Bytes of rules that the model is shown.
        reminds: Whether the model is reminded after each round.
    """

    def __init__(self, session: Session, current: Current, limit: int, reminds: bool) -> None:
        self.session = session
        self._current = current
        self._limit = limit
        self._reminds = reminds
        self._told = current.snapshot
        self._layers: tuple[Snapshot | None, list[Layer]] = (None, [])
        self._turn = trio.Lock()
        self._restored: set[str] = set()
        self._held = False

    @property
    def bundle(self) -> Bundle:
        """The rules that are in play now."""
        return self._current.snapshot.bundle

    @property
    def snapshot(self) -> Snapshot:
        """All rules, those that are not in play too, with their numbers."""
        return self._current.snapshot

    def refusal(self, name_or_path: str) -> str:
        """Return why rules keep something out of this kind of session.

        Args:
            name_or_path: A file, or what a plugin loads by a name: ``memory``.

        Returns:
            The reason; empty if it may be loaded.
        """
        from hilum_rules import checks

        rules = self._checked()
        if rules:
            return checks.may_load(rules, name_or_path, self.session.kind)
        return ""

    def _checked(self) -> list[Rule]:
        return [rule for rule in self.bundle.rules if rule.check is not None]

    async def _off_loop(self, cause: str, work: Callable[..., T], *arguments: Any) -> T:
        """Do something with the rules in a thread, one at a time, and tell what changed by it, and
        why: ``cause``.
        """
        async with self._turn:
            result = await trio.to_thread.run_sync(work, *arguments)
            self._tell(cause)
        self._hold()
        return result

    def _hold(self) -> None:
        """Have the guard's sandbox hold the paths that rules protect, for programs that write by
        themselves.
        """
        if self._held or not self._checked():
            return
        from hilum_guard import Guard, Held

        from hilum_rules import checks

        guard = self.session.half(Guard)
        if guard:
            self._held = True
            guard.protect(
                "rules",
                lambda: Held(*checks.guard_paths(self._checked(), self.session.workspace.root)),
            )

    def _tell(self, cause: str) -> None:
        """Write down that other rules are in play than were told last."""
        before = self._told
        now = self._current.snapshot
        self._told = now
        if before.bundle.source_hash == now.bundle.source_hash:
            return
        was = {file.path: file.source_hash for file in before.active}
        is_now = {file.path: file.source_hash for file in now.active}
        known = {rule.id for rule in before.bundle.rules}
        kept = {rule.id for rule in now.bundle.rules}
        self.session.note(
            "rules.policy_reload",
            cause=cause,
            files=[path for path in is_now if path in was and is_now[path] != was[path]],
            added_files=[path for path in is_now if path not in was],
            removed_files=[path for path in was if path not in is_now],
            added=[_brief(rule) for rule in now.bundle.rules if rule.id not in known],
            removed=[_brief(rule) for rule in before.bundle.rules if rule.id not in kept],
            source_hash=now.bundle.source_hash,
        )

    # --- what the model is shown ------------------------------------------------------------------

    @hookimpl
    async def gather_context(self, agent: Agent, request: ContextRequest) -> None:
        """Put the rules into play that belong to what the user names and has open."""
        await self._off_loop(
            "named", self._named, request.text, [*islice(_open_files(request.state), MOST_OPEN)]
        )

    def _named(self, text: str, opened: list[str]) -> None:
        import re

        words = re.findall(r"(?<![\w./~-])[\w./~-]*[\w-](?:\.\w{1,8}\b|/)", text[:20_000])[
            :MOST_WORDS
        ]
        self._current.name(text)
        self._current.touch(self._inside([*opened, *words]))

    @hookimpl
    async def build_prompt_layer(self, agent: Agent) -> list[Layer] | None:
        """Look whether rules changed, and give them: a change holds from the turn that this is
        asked for.
        """
        if agent.name not in self._restored:
            self._restored.add(agent.name)
            known = _known_files(agent)
            if known:
                await self._off_loop("resumed", self._current.touch, known)
        reloaded = await self._off_loop("changed", self._current.refresh)
        snapshot = self._current.snapshot
        self.session.note(
            "rules.policy_check", reloaded=reloaded, source_hash=snapshot.bundle.source_hash
        )
        if self._layers[0] is not snapshot:
            self._layers = snapshot, layers(snapshot, self._limit)
        return self._layers[1] or None

    @hookimpl
    def remind(self, agent: Agent, results: Sequence[ToolResult]) -> str | None:
        """Remind of the rules, where there are any; always in the same words."""
        if self._reminds and self.bundle.rules:
            return REMINDER
        return None

    # --- what is enforced -------------------------------------------------------------------------

    @hookimpl
    async def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Judge a call by the rules in play, those of the folder it reaches into for the first time
        too.
        """
        named = list(_named_paths(call, tool))
        if not named and not self._checked():
            return None
        return await self._off_loop("touched", self._judge, agent, call, tool, named)

    def _judge(self, agent: Agent, call: ToolCall, tool: Tool, named: list[str]) -> Verdict | None:
        inside = self._inside(named)
        self._current.touch(inside)
        rules = self._checked()
        if not rules:
            return None
        from hilum_rules import checks

        verdicts = [checks.judge_call(rules, agent, call, tool)]
        if tool.risk == "read":
            verdicts += [
                deny(why)
                for path in inside
                if (why := checks.may_load(rules, path, self.session.kind))
            ]
        verdicts.append(self._keeps(agent, call, tool))
        return max(
            (verdict for verdict in verdicts if verdict),
            key=lambda verdict: verdict.rank,
            default=None,
        )

    def _keeps(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Let the user decide before an agent rewrites the rules that hold it, or puts others in
        their place.
        """
        from hilum_rules import checks

        root = self.session.workspace.root
        held = [
            path.relative_to(root).as_posix()
            for path in self._current.sources()
            if path.is_relative_to(root)
        ]
        if held and tool.risk != "read":
            what = checks.rewrites(held, agent, call, tool)
        else:
            what = ""
        if what:
            return ask(f"The agent wants to change rules that are enforced: {what}.")
        return None

    @hookimpl
    async def check_answer(self, agent: Agent, message: AssistantMessage) -> str | None:
        """Object to a final answer that a rule forbids."""
        rules = self._checked()
        if not rules:
            return None
        from hilum_rules import checks

        return await trio.to_thread.run_sync(checks.judge_answer, rules, message.text)

    def _inside(self, names: Sequence[str] | Iterator[str]) -> list[str]:
        """Return the paths that lie in the workspace, relative to it, links followed. Blocks."""
        workspace = self.session.workspace
        found = []
        for name in names:
            try:
                real = workspace.resolve(name)
            except HilumError:
                continue
            if real.is_relative_to(workspace.root):
                found.append(real.relative_to(workspace.root).as_posix())
        return found


def _brief(rule: Rule) -> str:
    return f"{rule.path}:{rule.line}: {rule.sentence[:160]}"


def _named_paths(call: ToolCall, tool: Tool) -> Iterator[str]:
    """Yield the values of a call's parameters that hold paths."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        return
    for name, value in arguments.items() if isinstance(arguments, dict) else ():
        if name in PATHS.union(tool.writes):
            yield from (
                item
                for item in (value if isinstance(value, list) else [value])
                if isinstance(item, str)
            )


def _open_files(state: dict[str, Any]) -> Iterator[str]:
    """Yield the files that the user has open, as a face tells of them."""
    opened = state.get("open_files")
    for one in opened if isinstance(opened, list | tuple) else ():
        path = one.get("path") if isinstance(one, dict) else one
        if isinstance(path, str) and path:
            yield path


def _known_files(agent: Agent) -> list[str]:
    """Return the files of rules that a resumed conversation has seen."""
    conversation = agent.conversation
    seen = {layer.name: layer.text for layer in conversation.sealed.layers} | conversation.told
    names = [
        name.removeprefix(LAYER) for name, text in seen.items() if name.startswith(LAYER) and text
    ]
    return [
        name
        for name in names
        if not Path(name).is_absolute() and not name.startswith(("~", "..", "settings:"))
    ]
