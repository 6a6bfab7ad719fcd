"""A session's long-term memory: recalls memories, saves new ones on request, learns after runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import msgspec
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

from hilum_memory.longterm import lazy
from hilum_memory.longterm.memory import USER, Kind, Memory, WriteResult, memory_path
from hilum_memory.longterm.settings import LongTermSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_memory.longterm.learning import RunMaterial
    from hilum_memory.longterm.memories import Memories

T = TypeVar("T")
# Maximum number of memories to write for one prompt or one run.
MAX_PER_RUN = 5
# Time limit, in seconds, for learning from a run.
LEARNING_TIMEOUT = 30.0
SOURCE = "context:memory"
# A prompt without any of these words contains no request to remember anything, so the patterns need
# not be imported.
CUES = ("remember", "forget", "memori", "note", "记", "忘")


class LongTermMemory:
    """The session plugin for long-term memory.

    Args:
        session: The session.
        jobs: The nursery for the tasks that learn from runs.
        settings: The settings.
    """

    def __init__(self, session: Session, jobs: trio.Nursery, settings: LongTermSettings) -> None:
        self.session = session
        self.jobs = jobs
        self.settings = settings
        self.workspace = str(session.workspace.root)
        # A session that several people share must neither read nor write the memories of one user.
        self.scopes = [self.workspace]
        if session.kind != "shared":
            self.scopes.append(USER)
        self.writes = settings.enabled and session.kind in settings.kinds
        self._memories: Memories | None = None
        # A resumed session does not learn again from runs that ended earlier.
        self._seen = session.journal.last
        self._runs: dict[str, RunMaterial] = {}
        self._turn = trio.Lock()
        self._reported: set[str] = set()

    @property
    def memories(self) -> Memories:
        """The memories; SQLite is imported on first use."""
        if self._memories is None:
            self._memories = lazy.memories.Memories(
                memory_path(),
                most=self.settings.most,
                keep_days=self.settings.keep_days,
            )
        return self._memories

    # --- recalling --------------------------------------------------------------------------------

    @hookimpl
    async def gather_context(self, agent: Agent, request: ContextRequest) -> Sequence[Block] | None:
        """Save the memories that a prompt requests, and return those relevant to the prompt."""
        # A sub-agent's prompt comes from another agent, not from the user.
        if not self.settings.enabled or agent.parent:
            return None
        asks = any(cue in request.typed.casefold() for cue in CUES)
        # This check is cheap for users without memories.
        if not asks and not await _in_thread(memory_path().exists):
            return None
        try:
            text = await self._gather(agent, request, asks)
        except StoreError as error:
            self._report_failure(error)
            return None
        return [Block("memory", text, priority=8)] if text else None

    async def _gather(self, agent: Agent, request: ContextRequest, asks: bool) -> str:
        """Return the text of the memory block; empty if there are no memories.

        Args:
            agent: The agent.
            request: The request for context.
            asks: Whether the prompt may contain a request to remember something.
        """
        if await self._is_off():
            return ""
        written: list[Memory] = []
        if asks:
            written = await self._write_requests(agent, request.typed)
        found: list[Memory] = []
        # Use at most a quarter of the context budget, because other plugins share it.
        budget = min(self.settings.budget, request.budget // 4)
        if budget and not self._is_kept_out():
            found = await self._recall(agent, request.subject, budget)
        return lazy.recall.format_block(written, found)

    async def _is_off(self) -> bool:
        """Return whether the user has switched memory off."""
        # The first access imports SQLite, so it takes place in a thread.
        return await _in_thread(lambda: self.memories.is_off(self.workspace))

    def _is_kept_out(self) -> bool:
        """Return whether a user's rule forbids memories in this kind of session.

        The plugin that reads rules might not be installed.
        """
        plugin = self.session.kernel.host.plugins.get("rules")
        kind = getattr(plugin.module, "Rules", None) if plugin else None
        rules = self.session.plugin(kind) if kind else None
        if rules is None:
            return False
        reason = str(rules.refusal("memory"))
        if reason and reason not in self._reported:
            self._reported.add(reason)
            self._report_refusal(ToolDenied(reason))
        return bool(reason)

    async def _recall(self, agent: Agent, text: str, budget: int) -> list[Memory]:
        given = _find_blocks(agent)
        known: set[str] = set()
        for block in given:
            known.update(lazy.recall.find_memory_lines(block))
        search = partial(
            lazy.recall.recall_memories,
            self.memories,
            text,
            self.scopes,
            time.time(),
            first=not given,
        )
        found = await _in_thread(search)
        # Before the first compaction, memories written in this session are still in its messages.
        if not agent.conversation.epoch:
            found = [memory for memory in found if memory.session != self.session.id]
        found = lazy.recall.fit_budget(found, budget, frozenset(known))
        if found:
            self._report_recall([memory.id for memory in found])
        return found

    def _report_recall(self, ids: list[int]) -> None:
        listed = ", ".join(map(str, ids[:10]))
        if len(ids) > 10:
            listed += " …"
        say = f"memory: recalled {listed} (hilum memory show {ids[0]})"
        self.session.note("memory.recalled", ids=ids, say=say)
        # The write runs in the background, so that the prompt does not wait for the disk.
        self.jobs.start_soon(self._record_use, ids)

    async def _record_use(self, ids: Sequence[int]) -> None:
        try:
            await _in_thread(lambda: self.memories.used(ids))
        except StoreError as error:
            self._report_failure(error)

    # --- writing ----------------------------------------------------------------------------------

    async def _write_requests(self, agent: Agent, text: str) -> list[Memory]:
        """Save the memories that the user explicitly requests, without calling a model."""
        user_text = lazy.user_text
        written = []
        for request in user_text.find_requests(text)[:MAX_PER_RUN]:
            memory = Memory(
                scope=self._choose_scope(everywhere=user_text.applies_everywhere(request)),
                kind=user_text.guess_kind(request),
                text=request,
                origin="user",
                run=agent.starting,
            )
            try:
                self._check_writable()
                result = await self._write(memory)
                written.append(result.memory)
            except ToolError as error:
                self._report_refusal(error, say=True)
        return written

    def _choose_scope(self, *, everywhere: bool) -> str:
        """Return the scope of a new memory; shared sessions cannot write user memories."""
        return USER if everywhere and USER in self.scopes else self.workspace

    def _check_writable(self) -> None:
        if not self.writes:
            raise ToolDenied(
                f"Sessions of the kind {self.session.kind} write no memories.",
                hint="hilum memory add writes one; the setting longterm.kinds lets sessions do so.",
            )

    async def _write(self, memory: Memory, replaces: Iterable[int] = ()) -> WriteResult:
        """Validate and write a memory, and report it to the user.

        Raises:
            ToolError: The text must not be remembered.
            StoreError: The file cannot be written.
        """

        def write() -> WriteResult:
            # The text is checked in the thread, because the first check compiles the patterns for
            # secrets (10 ms).
            text = lazy.validation.check_text(memory.text)
            checked = msgspec.structs.replace(
                memory,
                text=text,
                paths=tuple(self._find_paths(memory.paths or text.split())),
                session=self.session.id,
            )
            return self.memories.add(checked, replaces)

        written = await _in_thread(write)
        self._report_written(written)
        return written

    def _report_written(self, written: WriteResult) -> None:
        new = written.memory
        replaced = [old.id for old in written.replaced]
        what = "already known" if written.what == "same" else "remembered"
        if replaced:
            what += f", in place of {', '.join(map(str, replaced))}"
        self.session.note(
            "memory.written",
            id=new.id,
            what=written.what,
            kind=new.kind,
            origin=new.origin,
            scope="user" if new.scope == USER else "workspace",
            text=new.text,
            replaced=replaced,
            say=f"memory: {what} [{new.id}] {new.text} (hilum memory forget {new.id})",
        )

    def _find_paths(self, names: Iterable[str]) -> Iterable[str]:
        """Yield the names that refer to files in the workspace."""
        # Checking each name accesses the disk.
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

    def _report_refusal(self, error: HilumError, *, say: bool = False) -> None:
        more = {"say": f"memory: {error}"} if say else {}
        self.session.note("memory.refused", code=error.code, reason=error.message, **more)

    def _report_failure(self, error: StoreError) -> None:
        if str(error) not in self._reported:
            self._reported.add(str(error))
            self.session.note(
                "memory.failed",
                code=error.code,
                reason=error.message,
                say=f"memory is off: {error}",
            )

    # --- tools ------------------------------------------------------------------------------------

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return the tools for memories, if memories can be written."""
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
        """Remember what the user wants kept or states as lasting, in the user's words.

        Args:
            text: One short sentence that makes sense on its own.
            kind: Its kind.
            everywhere: Whether it holds in all of the user's projects.
            replaces: Numbers of recalled memories that the new one replaces.
        """
        with _raise_tool_errors():
            # A web page or a file could make the model write a memory, but cannot change what the
            # user typed.
            if not lazy.user_text.is_drawn_from(text, await self._find_user_texts(agent)):
                raise ToolDenied(
                    "Only the user's own statements are remembered, and this text goes beyond"
                    " them.",
                    hint=(
                        "Use the user's own words; or ask the user to write it: hilum memory add"
                        ' "…".'
                    ),
                )
            scope = self._choose_scope(everywhere=everywhere)
            ids = await self._find_related(scope, text, replaces or ())
            memory = Memory(scope=scope, kind=kind, text=text, origin="tool", run=agent.run.id)
            written = await self._write(memory, ids)
        what = "Already known" if written.what == "same" else "Remembered"
        return f"{what} as [{written.memory.id}]."

    async def _find_related(self, scope: str, text: str, ids: Collection[int]) -> list[int]:
        """Return those of the given memories that share a significant word with a text.

        The model could pass any number, but it must not be able to delete unrelated memories.
        """
        find_words = lazy.tokenizer.find_significant_words
        words = set(find_words(text))
        known = await _in_thread(lambda: self.memories.all([scope]))
        named = [memory for memory in known if memory.id in ids]
        return [memory.id for memory in named if words & set(find_words(memory.text))]

    @tool(risk="write", effect="idempotent", queues="memories", deferred=True)
    async def forget(self, agent: Agent, number: int) -> str:
        """Delete a memory; use this only when the user asks for it.

        Args:
            number: The memory's number, as in [12].
        """
        with _raise_tool_errors():
            texts = await self._find_user_texts(agent)
            # Only the last prompt counts, because an earlier request may have been about another
            # memory.
            if not any(map(lazy.user_text.asks_to_forget, texts[-1:])):
                raise ToolDenied(
                    "The user has not asked to forget anything.",
                    hint=f"The user can run hilum memory forget {number}.",
                )
            memory = await _in_thread(lambda: self.memories.get(number))
            # A number must not give access to a memory of another workspace.
            if memory.scope not in self.scopes:
                raise UsageError(
                    f"There is no memory {number} here.",
                    code=errors.E_NOT_FOUND,
                    hint="Ask the user.",
                )
            await _in_thread(lambda: self.memories.forget([number]))
        self.session.note("memory.forgotten", id=number, say=f"memory: forgot [{number}]")
        return f"Forgot [{number}]."

    async def _find_user_texts(self, agent: Agent) -> list[str]:
        """Return the texts that the user typed in this conversation.

        Raises:
            ToolDenied: The agent does not talk with the user, or memory is off.
        """
        if agent.parent:
            raise ToolDenied(
                "Only an agent that talks with the user can save memories.",
                hint="Include the information in your answer.",
            )
        if await self._is_off():
            raise ToolDenied(
                "The user has switched memory off.", hint="hilum memory on switches it on."
            )
        remove_foreign_text = lazy.user_text.remove_foreign_text
        return [remove_foreign_text(message.typed) for message in _find_user_messages(agent)]

    # --- learning ---------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Follow the session's events until cancelled."""
        if self.writes and self.settings.write == "auto":
            async for event in self.session.events(after=self._seen):
                if isinstance(event, Event):
                    self._fold(event)

    def catch_up(self) -> None:
        """Process the events that ``watch`` has not processed yet."""
        if not self.writes or self.settings.write != "auto":
            return
        left = self.session.journal.since(self._seen)
        while left:
            for event in left:
                self._fold(event)
            left = self.session.journal.since(self._seen)

    def _fold(self, event: Event) -> None:
        # ``watch`` and ``catch_up`` may both receive an event.
        if event.seq <= self._seen:
            return
        self._seen = event.seq
        if isinstance(event, RunStarted):
            # Sub-agents' prompts are not the user's words.
            agent = self.session.agents.get(event.agent)
            if agent is not None and not agent.parent:
                self._runs[event.run] = lazy.learning.RunMaterial(event.agent, event.run)
        material = self._runs.get(event.run)
        if material is None:
            return
        material.apply(event)
        if isinstance(event, RunEnded):
            del self._runs[event.run]
            # Do not send a request to a model after a stopped or failed run, which shows little
            # about the user's wishes, or after a run without lasting statements.
            if event.state in ("completed", "partial_success") and material.is_promising():
                self.jobs.start_soon(self._learn, material, name=f"memories of run {event.run}")

    async def _learn(self, material: RunMaterial) -> None:
        """Learn from a run. Errors are only recorded as events."""
        # Process one run at a time, so that each run can build on the memories of the previous one.
        async with self._turn:
            with trio.move_on_after(LEARNING_TIMEOUT) as scope:
                try:
                    await self._learn_from(material)
                except StoreError as error:
                    self._report_failure(error)
                except HilumError as error:
                    self._report_refusal(error)
                except Exception as error:  # a gateway may raise anything; the session must survive
                    message = f"The model failed: {type(error).__name__}: {error}."
                    self._report_refusal(HilumError(message, code=errors.E_LLM_FAIL))
            if scope.cancelled_caught:
                message = f"Learning took longer than {LEARNING_TIMEOUT:g} seconds."
                self._report_refusal(HilumError(message, code=errors.E_TIMEOUT))

    async def _learn_from(self, material: RunMaterial) -> None:
        if await self._is_off():
            return
        typed = "\n".join(material.said)
        alike = await _in_thread(lambda: self.memories.search(typed, self.scopes, 10))
        known = [memory for memory, _ in alike]
        agent = self.session.agents[material.agent]
        model = lazy.learning.find_model(agent)
        # The request costs tokens, and nothing else on the screen shows that hilum sends it.
        say = f"memory: asking {model} what to remember of this run (setting longterm.write)"
        self.session.note("memory.learning", run=material.run, say=say)
        found = await lazy.learning.propose_memories(agent, material, known)
        for one in found[:MAX_PER_RUN]:
            scope = self._choose_scope(everywhere=one.about == "user")
            own = [memory.id for memory in known if memory.scope == scope]
            # The model may replace only memories that it was shown, and only those with the same
            # scope.
            ids = [id for id in own if id in one.replaces]
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
                self._report_refusal(error)

    def report_interruption(self) -> None:
        """Report that the session was closed before learning finished."""
        if self.session.journal.broken is None:
            self._report_refusal(
                HilumError(
                    "The session was closed before learning finished.", code=errors.E_INTERRUPTED
                )
            )


def _find_blocks(agent: Agent) -> list[str]:
    """Return the blocks of memories that the conversation contains."""
    blocks = []
    for message in _find_user_messages(agent):
        for part in message.parts:
            if isinstance(part, Text) and part.source == SOURCE:
                blocks.append(part.text)
    return blocks


def _find_user_messages(agent: Agent) -> list[UserMessage]:
    return [each for each in agent.conversation.messages if isinstance(each, UserMessage)]


@contextmanager
def _raise_tool_errors() -> Iterator[None]:
    """Convert memory errors into errors for the model that called the tool."""
    try:
        yield
    except (UsageError, StoreError) as error:
        raise ToolError(error.message, code=error.code, hint=error.hint) from None


async def _in_thread(work: Callable[[], T]) -> T:
    return await trio.to_thread.run_sync(work)
