"""The half of a session: what is recalled for a prompt, what is remembered on request, and what is
learned after a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import trio
from hilum import (
    Agent,
    Block,
    ContextRequest,
    HilumError,
    StoreError,
    Text,
    Tool,
    ToolDenied,
    ToolError,
    UsageError,
    UserMessage,
    errors,
    hookimpl,
    tool,
)
from hilum.events import Event, RunEnded, RunStarted

from hilum_memory.longterm.memory import USER, Kind, Memory, Written, memory_path
from hilum_memory.longterm.settings import LongTermSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_memory.longterm.learn import Material
    from hilum_memory.longterm.memories import Memories

T = TypeVar("T")
ENOUGH = 5
"""Memories that one prompt, or one run, gives at most."""
LIMIT = 30.0
"""Seconds in which what a run gives must be found."""
SOURCE = "context:memory"
CUES = ("remember", "forget", "memori", "note", "记", "忘")
"""A prompt without any of these asks for nothing to be remembered.

The patterns need not be loaded.
"""


class LongTerm:
    """See the module.

    Args:
        session: The session.
        jobs: Owns the tasks that look for what is worth keeping.
        settings: The settings.
    """

    def __init__(self, session: Session, jobs: trio.Nursery, settings: LongTermSettings) -> None:
        self.session = session
        self.jobs = jobs
        self.settings = settings
        self.workspace = str(session.workspace.root)
        # What a session that others share writes down and reads must not hold what concerns one
        # person.
        self.scopes = [self.workspace, *([] if session.kind == "shared" else [USER])]
        self.writes = settings.enabled and session.kind in settings.kinds
        self._memories: Memories | None = None
        self._seen = session.journal.last
        self._runs: dict[str, Material] = {}
        self._turn = trio.Lock()
        self._told: set[str] = set()

    @property
    def memories(self) -> Memories:
        """The memories; SQLite is loaded with the first use of them."""
        if self._memories is None:
            from hilum_memory.longterm.memories import Memories

            self._memories = Memories(
                memory_path(), most=self.settings.most, keep_days=self.settings.keep_days
            )
        return self._memories

    # --- recalling --------------------------------------------------------------------------------

    @hookimpl
    async def gather_context(self, agent: Agent, request: ContextRequest) -> Sequence[Block] | None:
        """Write what the prompt asks to remember, and give what is remembered about it."""
        if (
            not self.settings.enabled or agent.parent
        ):  # what a sub-agent is told comes from an agent, not from the user
            return None
        asks = any(cue in request.text.casefold() for cue in CUES)
        if not asks and not await _in_thread(
            memory_path().exists
        ):  # who keeps no memories pays nothing
            return None
        from hilum_memory.longterm import recall

        try:
            if await _in_thread(lambda: self.memories.is_off(self.workspace)):
                return None
            written = await self._write_asked(agent, request.text) if asks else []
            if self._is_kept_out():
                budget = 0
            else:
                budget = min(self.settings.budget, request.budget // 4)
            found = await self._recall(agent, request.text, budget) if budget else []
        except StoreError as error:
            self._complain(error)
            return None
        text = recall.block(written, found)
        if text:
            return [Block(recall.BLOCK, text, priority=8)]
        return None

    def _is_kept_out(self) -> bool:
        """Return whether a rule of the user keeps memories out of this kind of session.

        The plugin that reads rules may be absent.
        """
        plugin = self.session.kernel.host.plugins.get("rules")
        kind = getattr(plugin.module, "Rules", None) if plugin else None
        rules = self.session.half(kind) if kind else None
        reason = str(rules.refusal("memory")) if rules else ""
        if reason and reason not in self._told:
            self._told.add(reason)
            self._refuse(ToolDenied(reason))
        return bool(reason)

    async def _recall(self, agent: Agent, text: str, budget: int) -> list[Memory]:
        import time

        from hilum_memory.longterm import recall

        given = [
            p.text
            for m in agent.conversation.messages
            if isinstance(m, UserMessage)
            for p in m.parts
            if isinstance(p, Text) and p.source == SOURCE
        ]
        known = frozenset(line for text in given for line in recall.lines(text))
        found = await _in_thread(
            partial(recall.recall, self.memories, text, self.scopes, time.time(), first=not given)
        )
        if (
            not agent.conversation.epoch
        ):  # nothing was cut away: what comes from this session still stands in it
            found = [memory for memory in found if memory.session != self.session.id]
        found = recall.fitting(found, budget, known)
        if found:
            ids = [memory.id for memory in found]
            listed = ", ".join(map(str, ids[:10])) + (" …" if len(ids) > 10 else "")
            say = f"memory: recalled {listed} (hilum memory show {ids[0]})"
            self.session.note("memory.recalled", ids=ids, say=say)
            self.jobs.start_soon(self._note_use, ids)
        return found

    async def _note_use(self, ids: Sequence[int]) -> None:
        try:
            await _in_thread(lambda: self.memories.used(ids))
        except StoreError as error:
            self._complain(error)

    # --- writing ----------------------------------------------------------------------------------

    async def _write_asked(self, agent: Agent, text: str) -> list[Memory]:
        """Write what the user asks to remember in so many words; no model is needed for that."""
        from hilum_memory.longterm.said import asked, is_everywhere, kind_of

        written = []
        for wish in asked(text)[:ENOUGH]:
            try:
                self._may_write()
                scope = USER if is_everywhere(wish) and USER in self.scopes else self.workspace
                memory = Memory(
                    scope=scope, kind=kind_of(wish), text=wish, origin="user", run=agent.starting
                )
                written.append((await self._write(memory)).memory)
            except ToolError as error:
                self._refuse(error, say=True)
        return written

    def _may_write(self) -> None:
        if not self.writes:
            raise ToolDenied(
                f"Sessions of the kind {self.session.kind} write no memories.",
                hint="hilum memory add writes one; the setting longterm.kinds lets sessions do it.",
            )

    async def _write(self, memory: Memory, replaces: Iterable[int] = ()) -> Written:
        """Check and write a memory, and say so.

        Raises:
            ToolError: It is not one that is remembered.
            StoreError: The file cannot be written.
        """
        import msgspec

        from hilum_memory.longterm.safe import checked

        def write() -> Written:
            text = checked(memory.text)
            paths = tuple(self._paths(memory.paths or text.split()))
            whole = msgspec.structs.replace(memory, text=text, paths=paths, session=self.session.id)
            return self.memories.add(whole, replaces)

        written = await _in_thread(write)
        new = written.memory
        known = written.what == "same"
        if written.replaced:
            instead = f", in place of {', '.join(str(old.id) for old in written.replaced)}"
        else:
            instead = ""
        what = "known already" if known else f"remembered{instead}"
        self.session.note(
            "memory.written",
            id=new.id,
            what=written.what,
            kind=new.kind,
            origin=new.origin,
            scope="user" if new.scope == USER else "workspace",
            text=new.text,
            replaced=[old.id for old in written.replaced],
            say=f"memory: {what} [{new.id}] {new.text} (hilum memory forget {new.id})",
        )
        return written

    def _paths(self, names: Iterable[str]) -> Iterable[str]:
        """Yield those of some names that are files of the workspace."""
        for name in list(names)[:50]:
            name = name.strip(".,;:()'\"`")
            if "/" not in name and "." not in name:
                continue
            try:
                path = self.session.workspace.resolve(name)
                if path.exists():
                    yield str(PurePosixPath(path.relative_to(self.session.workspace.root)))
            except (HilumError, ValueError, OSError):
                continue

    def _refuse(self, error: HilumError, *, say: bool = False) -> None:
        told = {"say": f"memory: {error}"} if say else {}
        self.session.note("memory.refused", code=error.code, reason=error.message, **told)

    def _complain(self, error: StoreError) -> None:
        if str(error) not in self._told:
            self._told.add(str(error))
            self.session.note(
                "memory.failed",
                code=error.code,
                reason=error.message,
                say=f"memory is off: {error}",
            )

    # --- tools ------------------------------------------------------------------------------------

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return the tools, where memories are written."""
        return (self.remember, self.forget) if self.writes else ()

    @tool(risk="read", effect="idempotent", queues="memories", deferred=True)
    async def remember(
        self,
        agent: Agent,
        text: str,
        kind: Kind = "fact",
        everywhere: bool = False,
        replaces: list[int] | None = None,
    ) -> str:
        """Remember for later sessions what the user wants kept or states as lasting, in the user's
        words.

        Args:
            text: One short sentence that makes sense on its own.
            kind: Its kind.
            everywhere: It holds in all of the user's projects.
            replaces: Numbers of recalled memories that it replaces.
        """
        from hilum_memory.longterm.said import is_drawn_from
        from hilum_memory.longterm.words import telling

        with _told_to_the_model():
            if not is_drawn_from(text, await self._said(agent)):
                raise ToolDenied(
                    "Only what the user has said is remembered, and this says more.",
                    hint=(
                        "Use the user's own words; or ask the user to write it: hilum memory add"
                        ' "…".'
                    ),
                )
            scope = USER if everywhere and USER in self.scopes else self.workspace
            alike = set(telling(text))
            old = [
                one
                for one in await _in_thread(lambda: self.memories.all([scope]))
                if one.id in (replaces or ())
            ]
            ids = [one.id for one in old if alike & set(telling(one.text))]
            memory = Memory(scope=scope, kind=kind, text=text, origin="tool", run=agent.run.id)
            written = await self._write(memory, ids)
        return (
            f"{'Known already' if written.what == 'same' else 'Remembered'} as"
            f" [{written.memory.id}]."
        )

    @tool(risk="write", effect="idempotent", queues="memories", deferred=True)
    async def forget(self, agent: Agent, number: int) -> str:
        """Delete a memory. Only when the user asks for it.

        Args:
            number: Its number, as in [12].
        """
        from hilum_memory.longterm.said import wants_forgotten

        with _told_to_the_model():
            if not any(map(wants_forgotten, (await self._said(agent))[-1:])):
                raise ToolDenied(
                    "The user has not asked to forget anything.",
                    hint=f"hilum memory forget {number} does it.",
                )
            memory = await _in_thread(lambda: self.memories.get(number))
            if memory.scope not in self.scopes:
                raise UsageError(
                    f"There is no memory {number} here.",
                    code=errors.E_NOT_FOUND,
                    hint="Ask the user.",
                )
            await _in_thread(lambda: self.memories.forget([number]))
        self.session.note("memory.forgotten", id=number, say=f"memory: forgot [{number}]")
        return f"Forgot [{number}]."

    async def _said(self, agent: Agent) -> list[str]:
        """Return what the user typed in this conversation.

        Raises:
            ToolDenied: The agent does not talk with the user, or memory is off.
        """
        from hilum_memory.longterm.said import own

        if agent.parent:
            raise ToolDenied(
                "Only an agent that talks with the user keeps memories.",
                hint="Tell it in your answer.",
            )
        if await _in_thread(lambda: self.memories.is_off(self.workspace)):
            raise ToolDenied(
                "The user has switched memory off.", hint="hilum memory on switches it on."
            )
        messages = [
            message for message in agent.conversation.messages if isinstance(message, UserMessage)
        ]
        return [
            own(p.text)
            for m in messages
            for p in m.parts
            if isinstance(p, Text) and p.source == "user"
        ]

    # --- learning ---------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Follow the session's events until cancelled."""
        if self.writes and self.settings.write == "auto":
            async for event in self.session.events(after=self._seen):
                if isinstance(event, Event):
                    self._fold(event)

    def catch_up(self) -> None:
        """Take the events that ``watch`` has not come to."""
        while (
            self.writes
            and self.settings.write == "auto"
            and (left := self.session.journal.since(self._seen))
        ):
            for event in left:
                self._fold(event)

    def _fold(self, event: Event) -> None:
        if event.seq <= self._seen:
            return
        self._seen = event.seq
        if isinstance(event, RunStarted):
            from hilum_memory.longterm.learn import Material

            agent = self.session.agents.get(event.agent)
            if agent is not None and not agent.parent:
                self._runs[event.run] = Material(event.agent, event.run)
        material = self._runs.get(event.run)
        if material is None:
            return
        material.apply(event)
        if isinstance(event, RunEnded):
            del self._runs[event.run]
            if event.state in ("completed", "partial_success") and material.is_promising():
                self.jobs.start_soon(self._learn, material, name=f"memories of run {event.run}")

    async def _learn(self, material: Material) -> None:
        """Find what is worth keeping of a run and write it.

        Whatever goes wrong is an event and nothing else.
        """
        async with self._turn:
            with trio.move_on_after(LIMIT) as scope:
                try:
                    await self._find(material)
                except StoreError as error:
                    self._complain(error)
                except HilumError as error:
                    self._refuse(error)
                except Exception as error:
                    self._refuse(
                        HilumError(
                            f"The model failed: {type(error).__name__}: {error}.",
                            code=errors.E_LLM_FAIL,
                        )
                    )
            if scope.cancelled_caught:
                self._refuse(
                    HilumError(f"It took longer than {LIMIT:g} seconds.", code=errors.E_TIMEOUT)
                )

    async def _find(self, material: Material) -> None:
        from hilum_memory.longterm import learn

        if await _in_thread(lambda: self.memories.is_off(self.workspace)):
            return
        told = "\n".join(material.said)
        known = [
            memory
            for memory, _ in await _in_thread(lambda: self.memories.search(told, self.scopes, 10))
        ]
        found = await learn.propose(self.session.agents[material.agent], material, known)
        for one in found[:ENOUGH]:
            scope = USER if one.about == "user" and USER in self.scopes else self.workspace
            ids = [
                memory.id for memory in known if memory.id in one.replaces and memory.scope == scope
            ]
            memory = Memory(
                scope=scope,
                kind=one.kind,
                text=one.text,
                origin="run",
                run=material.run,
                paths=one.paths,
            )
            try:
                await self._write(memory, ids)
            except ToolError as error:
                self._refuse(error)

    def abandoned(self) -> None:
        """Say that the session closed before everything was found."""
        if self.session.journal.broken is None:
            self._refuse(HilumError("The session closed first.", code=errors.E_INTERRUPTED))


@contextmanager
def _told_to_the_model() -> Iterator[None]:
    """What the file of memories refuses is an answer to the model that asked, and no fault of the
    plugin.
    """
    try:
        yield
    except (UsageError, StoreError) as error:
        raise ToolError(error.message, code=error.code, hint=error.hint) from None


async def _in_thread(work: Callable[[], T]) -> T:
    return await trio.to_thread.run_sync(work)
