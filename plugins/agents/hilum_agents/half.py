"""The half of a session: knows its agents, reads prompts that call one, and holds each to what its
file says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import (
    Agent,
    AssistantMessage,
    HilumError,
    Interpretation,
    Profile,
    Session,
    Tool,
    ToolCall,
    UsageError,
    Verdict,
    hookimpl,
)
from hilum.errors import unknown

from hilum_agents.calls import AgentCall, may_call, read_call, read_unknown
from hilum_agents.places import any_written
from hilum_agents.settings import AgentsSettings

if TYPE_CHECKING:
    from hilum_agents.definitions.catalog import Catalog
    from hilum_agents.definitions.definition import Definition
    from hilum_agents.history import History
    from hilum_agents.managing import Desk

_as_text: ContextVar[bool] = ContextVar("hilum_agents_as_text", default=False)
MOST_TOLD = 8


class Agents:
    """The agents of a session.

    Args:
        session: Whose they are.
        settings: As they hold for its workspace.
        nursery: Where what takes long goes on.
    """

    def __init__(self, session: Session, settings: AgentsSettings, nursery: trio.Nursery) -> None:
        self._session = session
        self._settings = settings
        self._nursery = nursery
        self._bound: dict[str, Definition] = {}
        self._told: set[str] = set()
        self._lock = trio.Lock()
        self._found: Catalog | None = None
        self._history: History | None = None

    @property
    def session(self) -> Session:
        """Whose agents they are."""
        return self._session

    @property
    def catalog(self) -> Catalog:
        """What there is, as it was found last."""
        from hilum_agents.definitions.catalog import Catalog

        return self._found or Catalog()

    async def refresh(self) -> Catalog:
        """Look again if the disk has changed; tells the user what is new and wrong."""
        from hilum_agents.definitions.catalog import changed, look

        root = self._session.workspace.root
        async with self._lock:
            if self._found is None or await trio.to_thread.run_sync(changed, self._found, root):
                self._found = await trio.to_thread.run_sync(
                    lambda: look(root, folders=self._settings.folders)
                )
                self._tell(self._found)
            return self._found

    async def _matter(self, words: str) -> bool:
        """Return whether it matters to a prompt what agents there are.

        Most call none, where nobody has written any.
        """
        if self._found is not None or may_call(words):
            return True
        return await trio.to_thread.run_sync(
            any_written, self._session.workspace.root, self._settings.folders
        )

    async def find(self, name: str) -> Definition:
        """Return the definition of an agent as its file is now.

        Args:
            name: Its name; case is ignored.

        Raises:
            UsageError: There is none of that name, or it cannot be called; says why.
        """
        entry = (await self.refresh()).get(name)
        if entry is None:
            raise unknown("agent", name, self.catalog.names)
        if entry.state != "on":
            raise UsageError(
                f"The agent {entry.definition.name} cannot be called: {entry.reason.rstrip('.')}.",
                hint=f"hilum agents validate {entry.definition.name} says more.",
            )
        return entry.definition

    async def prepare(self, name: str) -> tuple[Definition, Profile]:
        """Return an agent that is ready to be run here: its model is there, and its filter leaves
        it what it needs.

        Args:
            name: Its name.

        Raises:
            UsageError: It cannot be called, or the tools it names are none of this session's.
        """
        definition = await self.find(name)
        profile = definition.profile()
        if profile.model:
            try:
                self._session.kernel.router.model(profile.model)
            except HilumError as error:
                say = f"The agent {definition.name} runs with the session's model. {error.message}"
                self._session.note(
                    "agents.model", say=say, agent=definition.name, model=profile.model
                )
                definition = attrs.evolve(definition, model="")
                profile = definition.profile()
        wants = profile.tools.allow is None or bool(profile.tools.allow)
        if wants and self._session.tools and not self.tools(definition):
            raise UsageError(
                f"The tool filter of the agent {definition.name} leaves it no tool.",
                hint=f"Change tools in {definition.path}; [] says that it needs none.",
            )
        return definition, profile

    def tools(self, definition: Definition) -> list[str]:
        """Return the names of the session's tools that pass an agent's filter."""
        return [name for name, risk in self.known_tools() if definition.tools.admits(name, risk)]

    def known_tools(self) -> list[tuple[str, str]]:
        """Return name and risk of the session's tools."""
        return [(tool.name, tool.risk) for tool in self._session.tools.values()]

    def bind(self, agent: str, definition: Definition) -> None:
        """Hold an agent of the session to a definition from now on: its permissions, and the form
        of its answers.

        Args:
            agent: The agent's name in the session.
            definition: As it was read when the agent was called; a file that changes later changes
                nothing for it.
        """
        if self._bound.get(agent) != definition:
            self._bound[agent] = definition
            self.history.hold(agent, definition)

    @property
    def history(self) -> History:
        """What the log has of the agents."""
        if self._history is None:
            from hilum_agents.history import History

            self._history = History(self._session)
        return self._history

    def of(self, agent: Agent) -> Definition | None:
        """Return the definition that an agent is held to, ``None`` for one that has none."""
        if agent.name in self._bound or agent.name == "main":
            return self._bound.get(agent.name)
        held = self.history.held(agent.name)
        if held is not None:
            return held  # it was resumed, and what narrows it holds whatever became of its file
        entry = self.catalog.get(agent.profile.name)
        if entry is None or entry.definition.error:
            return None
        return entry.definition

    async def held(self, agent: Agent) -> Definition | None:
        """As ``of``, once the agents are known: a run that is resumed is not called anew."""
        if self._found is None and agent.name not in self._bound and agent.name != "main":
            await self.refresh()
        return self.of(agent)

    @contextmanager
    def as_text(self) -> Iterator[None]:
        """Have what is prompted within taken as text: what an agent is told calls no agent, itself
        least of all.
        """
        token = _as_text.set(True)
        try:
            yield
        finally:
            _as_text.reset(token)

    async def call(self, call: AgentCall) -> Agent | str:
        """Return the agent of this session that answers to a name, made at its first call.

        Returns:
            The agent. Where it cannot begin now it is started, waits for its turn, and words for
            the user say so.

        Raises:
            UsageError: It cannot be called.
        """
        from hilum_agents.runs import Runs

        definition, profile = await self.prepare(call.name)
        runs = self._session.half(Runs)
        agent = self._session.agents.get(definition.name)
        if runs is not None and not runs.can_begin(definition.name):
            identity = runs.begin(profile, call.prompt, keep=True, definition=definition)
            return (
                f"{definition.name} was started as {identity}:"
                f" {runs.status(identity)['current_step']}"
            )
        if agent is not None and agent.conversation.phase != "idle":
            return agent  # a run that is under way keeps what it began with
        if runs is not None:
            agent = runs.join(profile)
        elif agent is None:
            agent = self._session.add_agent(profile)
        else:
            agent.profile = profile  # the file may have changed since
        self.bind(agent.name, definition)
        return agent

    # --- hooks ------------------------------------------------------------------------------------

    @hookimpl
    async def interpret_prompt(self, session: Session, text: str) -> Interpretation | None:
        """Read ``/agents …`` and calls of agents; everything else is for others."""
        if _as_text.get():
            return None
        words = text.strip()
        if words == "/agents" or words.startswith(("/agents ", "/agents\t")):
            return Interpretation(text, reply=await self._command(words.removeprefix("/agents")))
        if not self._settings.by_name or not words or words[0] in "!/":
            return None
        if not await self._matter(words):
            return None
        names = (await self.refresh()).names
        call = read_call(words, names)
        if call is not None:
            try:
                agent = await self.call(call)
            except HilumError as error:
                return Interpretation(text, reply=str(error))
            if isinstance(agent, str):
                return Interpretation(text, reply=agent)
            return Interpretation(call.prompt, agent.name)
        missing = read_unknown(words, names)
        if missing:
            name, near = missing
            hint = f" Did you mean {near}?" if near else ""
            self._session.note(
                "agents.unknown", say=f"There is no agent {name!r}.{hint}", agent=name, nearest=near
            )
        return None

    @hookimpl
    async def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Hold a call to the permissions of the agent's own file.

        Refactor proposes before it changes anything.
        """
        definition = await self.held(agent)
        if definition is None:
            return None
        return await self.judge(definition, agent, call, tool)

    async def judge(
        self, definition: Definition, agent: Agent, call: ToolCall, tool: Tool
    ) -> Verdict | None:
        """Return what an agent's own file makes of a call, by itself or by one that it has started.

        Args:
            definition: What it is held to.
            agent: The agent.
            call: The call.
            tool: The tool that is called.
        """
        from hilum_agents import answers
        from hilum_agents.definitions.permissions import judge, judge_reach

        if definition.answer and tool.risk != "read":
            said = self.history.messages(agent)
            by_user = not agent.parent
            verdict = answers.judge_call(definition.answer, said, tool, by_user=by_user)
            if verdict:
                return verdict
        verdict = judge_reach(definition.agents, definition.skills, call.name, call.arguments)
        if verdict:
            return verdict
        if not definition.permissions:
            return None
        arguments = (definition.permissions, call.name, call.arguments, self._session.workspace)
        return await trio.to_thread.run_sync(judge, *arguments)

    @hookimpl(optionalhook=True)
    async def limit_skills(self, agent: Agent) -> tuple[str, ...] | None:
        """Show an agent the skills that its file names, and no other."""
        definition = await self.held(agent)
        return None if definition is None else definition.skills

    @hookimpl
    async def check_answer(self, agent: Agent, message: AssistantMessage) -> str | None:
        """Hold an answer to the form that the agent's file names."""
        definition = await self.held(agent)
        form = None if definition is None else definition.form or definition.answer
        if not form:
            return None
        from hilum_agents import answers

        said = list(self.history.messages(agent))
        by_user = not agent.parent
        check = partial(answers.check, form, said, self._session.workspace, by_user=by_user)
        return await trio.to_thread.run_sync(check) or None

    # --- inside -----------------------------------------------------------------------------------

    async def _command(self, line: str) -> str:
        from hilum_agents import managing

        out = StringIO()
        desk = managing.Desk(
            Path(self._session.workspace.root), self._settings, out, in_session=self
        )
        try:
            await managing.run_line(line, desk)
        except HilumError as error:
            out.write(str(error))
        return out.getvalue().strip()

    def later(self, desk: Desk, action: Callable[[Desk], Awaitable[object]]) -> None:
        """Do what would take too long for a reply; what it says becomes the note ``agents.done``.

        Args:
            desk: Where it would work.
            action: What it does.
        """

        async def work() -> None:
            out = StringIO()
            try:
                await action(attrs.evolve(desk, out=out))
            except HilumError as error:
                out.write(str(error))
            self._session.note("agents.done", say=out.getvalue().strip())

        self._nursery.start_soon(work)

    async def author(self, instructions: str, wish: str) -> str:
        """Have the session's model write a text, in a conversation of its own with no tools.

        Args:
            instructions: How.
            wish: What the user wants.

        Raises:
            UsageError: There is no model, or it gave nothing.
        """
        return await author(self._session, instructions, wish)

    def _tell(self, catalog: Catalog) -> None:
        """Say what is wrong, each thing once in a session."""
        broken = [
            f"The agent {each.definition.path} is left out: {each.reason}"
            for each in catalog.entries
            if each.state == "broken"
        ]
        hidden = [
            f"The agent {each.definition.name} of {each.source} is hidden: {each.reason}."
            for each in catalog.entries
            if each.state == "hidden" and each.definition.scope != "builtin"
        ]
        new = [each for each in (*broken, *hidden, *catalog.complaints) if each not in self._told]
        self._told.update(new)
        if new:
            if len(new) > MOST_TOLD:
                more = f"\n… and {len(new) - MOST_TOLD} more; hilum agents list shows them."
            else:
                more = ""
            self._session.note(
                "agents.problems", say="\n".join(new[:MOST_TOLD]) + more, problems=new[:200]
            )
        off = sorted(
            {each.definition.name for each in catalog.entries if each.state == "untrusted"}
        )
        if off:
            names = ", ".join(off[:MOST_TOLD]) + (
                f" and {len(off) - MOST_TOLD} more" if len(off) > MOST_TOLD else ""
            )
            say = f"Agents of this project are off: {names}. {catalog.distrust}"
            if say not in self._told:
                self._told.add(say)
                self._session.note("agents.untrusted", say=say, agents=off)


async def author(session: Session, instructions: str, wish: str) -> str:
    """Have a session's model write a text. Takes and raises what ``Agents.author`` does."""
    from hilum import ToolFilter

    number = sum(name.startswith("agent-author") for name in session.agents)
    profile = Profile(f"agent-author-{number}", instructions, tools=ToolFilter(()), turns=2)
    session.add_agent(profile)
    token = _as_text.set(True)
    try:
        result = await session.run(wish, agent=profile.name)
    finally:
        _as_text.reset(token)
    if not result.text.strip():
        raise UsageError(
            f"The model wrote nothing. {result.error}".strip(), hint="Give a prompt with --prompt."
        )
    return result.text


@asynccontextmanager
async def open_agents(session: Session) -> AsyncIterator[Agents]:
    """Create the half of a session, and end what it started."""
    async with trio.open_nursery() as nursery:
        yield Agents(session, session.settings(AgentsSettings), nursery)
        nursery.cancel_scope.cancel()
