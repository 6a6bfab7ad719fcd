"""The session plugin that manages the defined agents and enforces each agent's definition file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from io import StringIO
from types import ModuleType
from typing import TYPE_CHECKING, TextIO

import attrs
import trio
from hilum import (
    Agent,
    AssistantMessage,
    HilumError,
    Profile,
    PromptCommand,
    Session,
    Tool,
    ToolCall,
    UsageError,
    Verdict,
    deny,
    hookimpl,
)
from hilum.errors import unknown_name_error

from hilum_agents.arguments import parse_arguments
from hilum_agents.authoring import literal_prompts
from hilum_agents.guest_models import MODEL_PROVIDER
from hilum_agents.settings import AgentsSettings

if TYPE_CHECKING:
    from hilum_agents.definitions.catalog import Catalog
    from hilum_agents.definitions.definition import Definition
    from hilum_agents.history import History

# A project may contain hundreds of broken files. The terminal lists only a few broken files, and
# the log lists more.
MAX_PROBLEMS_SHOWN = 8
MAX_PROBLEMS_LOGGED = 200


def _load(name: str) -> ModuleType:
    """Return a module of this package, imported at first use.

    Most sessions call no agent, so they must not load the modules that parse agent files: loading
    them would add more than 50 ms to each start of hilum (``tests/end_to_end/test_start_up.py``).
    """
    return import_module(f"hilum_agents.{name}")


class Agents:
    """The session plugin for agents that are defined in files.

    The plugin keeps the catalog of these agents, and the definitions to which the session's agents
    are bound.

    Args:
        session: The session.
        settings: The settings for the session's workspace.
        nursery: The nursery for tasks that run in the background.
    """

    def __init__(self, session: Session, settings: AgentsSettings, nursery: trio.Nursery) -> None:
        self.session = session
        self.settings = settings
        self._nursery = nursery
        self._bound: dict[str, Definition] = {}
        self._reported: set[str] = set()
        # Two concurrent calls must not both load the files and report their problems.
        self._lock = trio.Lock()
        self._found: Catalog | None = None
        self._history: History | None = None
        self._is_looking = False

    # --- commands ---------------------------------------------------------------------------------

    @hookimpl
    def list_commands(self) -> list[PromptCommand]:
        """Return the agents that a prompt can call, as far as a scan has found them."""
        if self._found is None and not self._is_looking:
            self._is_looking = True
            self._nursery.start_soon(self.refresh)
        found = []
        for name in self.catalog.names:
            entry = self.catalog.get(name)
            if entry is not None and entry.state == "on":
                found.append(PromptCommand(name, entry.definition.description, mark="@"))
        return found

    # --- definitions ------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """All agents found by the most recent scan; empty before the first scan."""
        if self._found is None:
            empty: Catalog = _load("definitions.catalog").Catalog()
            return empty
        return self._found

    @property
    def is_searched(self) -> bool:
        """Whether this session has already scanned for agent files."""
        return self._found is not None

    async def refresh(self) -> Catalog:
        """Scan for agents, report new problems to the user, and return all agents."""
        catalog = _load("definitions.catalog")
        root = self.session.workspace.root
        async with self._lock:
            known = self._found
            if known is not None and not await trio.to_thread.run_sync(
                catalog.has_changed,
                known,
                root,
            ):
                return known
            search = partial(catalog.find_agents, root, folders=self.settings.folders)
            found: Catalog = await trio.to_thread.run_sync(search)
            self._found = found
            self._report_problems(found)
            self._report_untrusted(found)
            return found

    async def find(self, name: str) -> Definition:
        """Return the definition of an agent from the current content of its file.

        Args:
            name: Name of the agent; case is ignored.

        Raises:
            UsageError: The agent does not exist or cannot be called.
        """
        entry = (await self.refresh()).get(name)
        if entry is None:
            raise unknown_name_error("agent", name, self.catalog.names)
        if entry.state != "on":
            raise UsageError(
                f"The agent {entry.definition.name} cannot be called: {entry.reason.rstrip('.')}.",
                hint=f"`hilum agents validate {entry.definition.name}` shows details.",
            )
        return entry.definition

    async def prepare(self, name: str) -> tuple[Definition, Profile]:
        """Return the definition and the profile of an agent that can run in this session.

        Args:
            name: Name of the agent.

        Raises:
            UsageError: The agent cannot be called, or its tool filter excludes every tool.
        """
        definition = self._with_known_model(await self.find(name))
        if definition.runner is not None:
            self._check_runner(definition)
        profile = definition.profile()
        # An empty list of tools is a valid choice: an agent without tools can still answer.
        wants_tools = profile.tools.allow is None or bool(profile.tools.allow)
        tools = self.known_tools()
        has_tools = any(profile.tools.admits(name, risk) for name, risk in tools)
        if wants_tools and tools and not has_tools:
            raise UsageError(
                f"The tool filter of the agent {definition.name} excludes every tool.",
                hint=f"Change `tools` in {definition.path}; [] means no tools.",
            )
        return definition, profile

    def _check_runner(self, definition: Definition) -> None:
        """Check that a plugin can run the program of an agent.

        Raises:
            UsageError: There is no such plugin. The session's model must not work in its place.
        """
        providers = self.session.kernel.router.providers
        if MODEL_PROVIDER not in providers:
            raise UsageError(
                f"The agent {definition.name} is another program, and no plugin can run it.",
                hint="Install hilum-acp.",
            )

    def _with_known_model(self, definition: Definition) -> Definition:
        """Return the definition, without its model if the session does not provide that model."""
        if not definition.model:
            return definition
        # Agent files are shared between users, who have different providers.
        try:
            self.session.kernel.router.model(definition.model)
        except HilumError as error:
            say = f"The agent {definition.name} uses the session's model. {error.message}"
            self.session.note(
                "agents.model",
                say=say,
                agent=definition.name,
                model=definition.model,
            )
            return attrs.evolve(definition, model="")
        return definition

    def known_tools(self) -> list[tuple[str, str]]:
        """Return the name and the permission category of each of the session's tools."""
        return [(tool.name, tool.risk) for tool in self.session.tools.values()]

    # --- bindings ---------------------------------------------------------------------------------

    def bind(self, agent: str, definition: Definition) -> None:
        """Bind an agent in the session to the permissions and the answer form of a definition.

        Args:
            agent: Name of the agent in the session.
            definition: The definition at the time of the call. Later changes to the file do not
                affect the agent.
        """
        # Each call of an agent binds the agent again, but writes an event only if the definition
        # has changed.
        if self._bound.get(agent) != definition:
            self._bound[agent] = definition
            self.history.bind(agent, definition)

    @property
    def history(self) -> History:
        """The history from the session's log: complete conversations and earlier bindings."""
        if self._history is None:
            found: History = _load("history").History(self.session)
            self._history = found
        return self._history

    async def definition_of(self, agent: Agent) -> Definition | None:
        """Return the definition to which an agent is bound, or ``None`` if there is none."""
        name = agent.name
        if name in self._bound or name == "main":
            return self._bound.get(name)
        if self._found is None:
            await self.refresh()  # a resumed run may begin before any scan
        # A resumed agent keeps its permissions even if its file has changed: the log takes
        # precedence.
        bound = self.history.binding(name)
        if bound is not None:
            return bound
        entry = self.catalog.get(agent.profile.name)
        if entry is None or entry.definition.error:
            return None
        return entry.definition

    # --- hooks ------------------------------------------------------------------------------------

    @hookimpl
    def on_tool_call(
        self, agent: Agent, call: ToolCall, tool: Tool
    ) -> Awaitable[Verdict | None] | None:
        """Judge an agent's calls, based on the agent's file."""
        if agent.name == "main" and agent.name not in self._bound:
            return None  # no task is started, because most sessions have only this agent
        return self.judge_call(agent, call, tool)

    async def judge_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Return the verdict on a call by an agent or its sub-agents, based on the agent's file.

        Args:
            agent: The agent whose file determines the verdict.
            call: The call.
            tool: The called tool.
        """
        definition = await self.definition_of(agent)
        if definition is None:
            return None
        permissions = _load("definitions.permissions")
        verdict: Verdict | None = self._judge_confirmation(definition, agent, tool)
        if verdict is None:
            verdict = permissions.judge_reach(
                definition.agents,
                definition.skills,
                call.name,
                call.arguments,
            )
        if verdict is None and tool.writes and "write" in definition.tools.deny:
            # Such a tool may have another permission category, as one that makes images.
            verdict = deny("The agent's file does not allow changing files.")
        if verdict is None and definition.permissions:
            # Parsing a command line can take milliseconds, so it happens in a thread.
            verdict = await trio.to_thread.run_sync(
                permissions.judge,
                definition.permissions,
                call.name,
                call.arguments,
                self.session.workspace,
                tool.risk,
                _find_touched(tool, call.arguments),
            )
        return verdict

    def _judge_confirmation(
        self,
        definition: Definition,
        agent: Agent,
        tool: Tool,
    ) -> Verdict | None:
        """Until the user confirms a proposal, deny changes by an agent that makes proposals."""
        if not definition.answer or tool.risk == "read":
            return None
        # An agent with a parent got its task from another agent, which cannot consent for the user.
        verdict: Verdict | None = _load("answers").judge_call(
            definition.answer,
            self.history.messages(agent),
            tool,
            by_user=not agent.parent,
        )
        return verdict

    @hookimpl(optionalhook=True)
    async def limit_skills(self, agent: Agent) -> tuple[str, ...] | None:
        """Return the skills that an agent's file lists, or ``None`` if the file allows all."""
        definition = await self.definition_of(agent)
        return None if definition is None else definition.skills

    @hookimpl
    async def check_answer(self, agent: Agent, message: AssistantMessage) -> str | None:
        """Check an answer against the form that the agent's file names."""
        definition = await self.definition_of(agent)
        form = None if definition is None else definition.form or definition.answer
        if not form:
            return None
        check = partial(
            _load("answers").check,
            form,
            list(self.history.messages(agent)),
            self.session.workspace,
            by_user=not agent.parent,
        )
        return await trio.to_thread.run_sync(check) or None

    # --- background -------------------------------------------------------------------------------

    def as_text(self) -> AbstractContextManager[None]:
        """Treat all prompts inside this context as plain text, never as agent calls."""
        return literal_prompts()

    def run_in_background(self, action: Callable[[TextIO], Awaitable[object]]) -> None:
        """Run an action in the background; its output becomes a note in the session.

        Args:
            action: The action, which writes to the stream that it receives.
        """

        async def work() -> None:
            out = StringIO()
            try:
                await action(out)
            except HilumError as error:
                out.write(str(error))
            self.session.note("agents.done", say=out.getvalue().strip())

        self._nursery.start_soon(work)

    # --- reports to the user ----------------------------------------------------------------------

    def _report_problems(self, catalog: Catalog) -> None:
        """Report files that cannot be loaded, once per session."""
        found = []
        for entry in catalog.entries:
            definition = entry.definition
            if entry.state == "broken":
                found.append(f"The agent file {definition.path} is ignored: {entry.reason}")
            elif entry.state == "hidden" and definition.scope != "builtin":
                reason = entry.reason.rstrip(".")
                found.append(
                    f"The agent {definition.name} from {entry.source} is hidden: {reason}."
                )
        new = [each for each in (*found, *catalog.complaints) if each not in self._reported]
        if not new:
            return
        self._reported.update(new)
        lines = new[:MAX_PROBLEMS_SHOWN]
        if len(new) > MAX_PROBLEMS_SHOWN:
            lines.append(
                f"… and {len(new) - MAX_PROBLEMS_SHOWN} more; `hilum agents list` shows them."
            )
        problems = new[:MAX_PROBLEMS_LOGGED]
        self.session.note("agents.problems", say="\n".join(lines), problems=problems)

    def _report_untrusted(self, catalog: Catalog) -> None:
        """Report the agents of an untrusted project, once per session."""
        untrusted = [entry for entry in catalog.entries if entry.state == "untrusted"]
        names = sorted({entry.definition.label for entry in untrusted})
        if not names:
            return
        say = f"Agents of this project are off: {_first_names(names)}. {catalog.distrust}"
        if say not in self._reported:
            self._reported.add(say)
            self.session.note("agents.untrusted", say=say, agents=names)


def _find_touched(tool: Tool, arguments: str) -> list[str]:
    """Return the paths in the arguments of a call that its tool reads or writes."""
    given = parse_arguments(arguments)
    touched = tool.paths_written(given)
    # A function would need the checked arguments.
    if tool.reads and not callable(tool.reads):
        touched += tool.paths_read(given)
    return touched


def _first_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_PROBLEMS_SHOWN])
    if len(names) > MAX_PROBLEMS_SHOWN:
        shown += f" and {len(names) - MAX_PROBLEMS_SHOWN} more"
    return shown


@asynccontextmanager
async def open_agents(session: Session) -> AsyncIterator[Agents]:
    """Yield the plugin instance of a session, and end its background tasks."""
    async with trio.open_nursery() as nursery:
        yield Agents(session, session.settings(AgentsSettings), nursery)
        nursery.cancel_scope.cancel()
