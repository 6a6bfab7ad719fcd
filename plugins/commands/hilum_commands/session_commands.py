"""The session plugin for custom commands: lists them, and turns ``/name arguments`` into a prompt."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Awaitable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from hilum import (
    Agent,
    HilumError,
    Interpretation,
    PromptCommand,
    Session,
    Tool,
    ToolCall,
    UsageError,
    Verdict,
    hookimpl,
    list_program_commands,
)
from hilum.errors import E_BAD_ARGS, E_DENIED, similar_names
from hilum.events import PluginEvent
from msgspec.structs import replace

from hilum_commands import lazy
from hilum_commands.settings import CommandsSettings

if TYPE_CHECKING:
    from hilum_commands.catalog import CommandCatalog, CommandEntry

# The commands of hilum's terminal. They exist only there, but a name should mean the same thing in
# every face. A test compares them with the terminal's own table.
TERMINAL_NAMES = frozenset(
    "? approve background bg branch checkpoint clear compact context continue copy cost diff doctor"
    " exit export fork help init mode model new permissions plugins ps queue quit redo rename resume"
    " rewind setup stop trust undo usage".split()
)
# Agents of other programs that stand for a way to work. The last two may only read.
_WAYS_TO_WORK = frozenset({"agent", "build", "edit", "general", "ask", "plan"})
_READING = frozenset({"ask", "plan"})
_NAME = re.compile(r"[^\W\d][\w:-]*")
_AS_TEXT = "To send text that begins with a slash, type a space before it."
MAX_SIMILAR = 4
_COMMAND = re.compile(r"/(\S+)(?:\s+(.*))?", re.DOTALL)
MAX_NOTED = 8
_OTHERS = "others"
"""Marks that the user knows of the problems in the files of other commands."""
EXPANDED = "commands.expanded"
"""Name of the event before a prompt that contains outputs or files."""


class Commands:
    """The session plugin for custom commands.

    Args:
        session: The session.
        settings: The settings of the session's workspace.
    """

    def __init__(self, session: Session, settings: CommandsSettings) -> None:
        self._session = session
        self._settings = settings
        self._lock = trio.Lock()
        self._is_listing = False
        self._reported: set[str] = set()

    @functools.cached_property
    def catalog(self) -> CommandCatalog:
        """The commands that the most recent search found."""
        root = self._session.workspace.root
        return lazy.catalog.CommandCatalog(root, others=self._settings.folders)

    # Commands of other plugins come first, so that no file takes their names.
    @hookimpl(trylast=True)
    def list_commands(self) -> list[PromptCommand]:
        """Return the commands that can be used. Files that have changed are read again."""
        if self._is_listing:
            return []
        self.catalog.refresh(self._find_reserved())
        return [
            PromptCommand(entry.name, entry.file.summary, entry.file.hint)
            for entry in self.catalog.usable()
        ]

    @hookimpl(trylast=True)
    async def interpret_prompt(self, text: str) -> Interpretation | None:
        """Return the prompt of ``/name arguments``.

        Raises:
            UsageError: There is no such command, its file is wrong, or a shell insert must not run.
        """
        if not text.startswith("/"):
            return None
        match = _COMMAND.fullmatch(text.rstrip())
        # A model that prompts another agent must not run shell inserts in this way.
        if match is None or _is_literal():
            return None
        async with self._lock:
            await trio.to_thread.run_sync(self.catalog.refresh, self._find_reserved())
        entry = self.catalog.find(match[1])
        if entry is None:
            self._check_name(match[1])
            return None
        self._report(entry)
        if entry.state == "broken":
            raise UsageError(
                f"/{entry.name} cannot be used: {entry.file.describe_problems()[-1]}",
                code=E_BAD_ARGS,
                hint="Correct the file. `hilum commands` lists what is wrong.",
            )
        expansion = lazy.expansion.Expansion(
            self._session, self._settings, entry.name, entry.file, match[2] or ""
        )
        try:
            expanded = await expansion.expand()
        except lazy.expansion.CommandRefused as error:
            raise UsageError(f"/{entry.name} was not sent. {error}", code=E_DENIED) from None
        if expanded.left_out:
            say = "\n  ".join([f"Not in the prompt of /{entry.name}:", *expanded.left_out])
            self._session.note("commands.left_out", say=say, command=entry.name)
        if expanded.attached:
            # A replay takes the prompt from the log, and does not run shell inserts again.
            self._session.emit(PluginEvent(name=EXPANDED, data={"command": entry.name}))
        prompt = self._restrict(entry, expanded.text)
        return await self._address(entry, Interpretation(prompt, attached=expanded.attached))

    @hookimpl
    def on_tool_call(
        self, agent: Agent, call: ToolCall, tool: Tool
    ) -> Awaitable[Verdict | None] | None:
        """Deny calls that the command that began the run does not allow."""
        if tool.risk == "read" or next(lazy.restrictions.find_restrictions(agent), None) is None:
            return None  # no task is started, because few runs begin with such a command
        verdict: Awaitable[Verdict | None]
        verdict = lazy.restrictions.judge_restricted_call(agent, call, tool)
        return verdict

    # --- inside -----------------------------------------------------------------------------------

    def _check_name(self, name: str) -> None:
        """Reject the name of a command that does not exist, before it costs a run.

        A name that another plugin lists is left to this plugin, and a path is text.

        Args:
            name: The first word of the prompt, without the slash.

        Raises:
            UsageError: The user meant a command that does not exist here.
        """
        others = {command.name for _, command in self._session.list_commands()}
        if not _NAME.fullmatch(name) or name in others:
            return
        paths = (Path("/", name), self._session.workspace.root / name)
        if any(map(os.path.lexists, paths)):
            return
        if name in list_program_commands():
            raise UsageError(
                f"/{name} is a command of hilum's terminal.",
                hint=f"Run `hilum {name}` instead. {_AS_TEXT}",
            )
        if name in TERMINAL_NAMES:
            raise UsageError(
                f"/{name} is a command of hilum's terminal, and has no effect here.", hint=_AS_TEXT
            )
        near = [f"/{each}" for each in self._find_similar(name, others)]
        proposal = f"Did you mean {' or '.join(near)}?" if near else "`hilum commands` lists them."
        raise UsageError(f"There is no command /{name}.", hint=f"{proposal} {_AS_TEXT}")

    def _find_similar(self, name: str, others: Collection[str]) -> list[str]:
        """Return the commands that a mistyped name may mean."""
        names = sorted({*others, *(entry.name for entry in self.catalog.usable())})
        # A file in a folder may need its folder in the name: `/backend:test` for `/test`.
        in_folders = [each for each in names if each.endswith(f":{name}")]
        return in_folders[:MAX_SIMILAR] or similar_names(name, names)

    def _find_reserved(self) -> set[str]:
        """Return the names that no file can take: those of hilum and its other plugins."""
        names = set(list_fixed_names())
        # This plugin is asked for its own commands, too.
        self._is_listing = True
        try:
            for plugin, command in self._session.list_commands():
                if plugin != "skills" and command.mark == "/":
                    names.add(command.name)
        finally:
            self._is_listing = False
        return names

    def _restrict(self, entry: CommandEntry, text: str) -> str:
        """Return the prompt with the line that restricts the tools of its run."""
        tools = entry.file.tools
        if entry.file.agent.casefold() in _READING:
            tools = ()
        if tools is None or "*" in tools:
            return text
        return lazy.restrictions.make_restriction_line(entry.name, tools, entry.file.dialect) + text

    async def _address(self, entry: CommandEntry, meant: Interpretation) -> Interpretation:
        """Return the prompt for the agent that the command's file names."""
        command = entry.file
        wanted = command.agent.casefold()
        if wanted and wanted not in _WAYS_TO_WORK:
            return await self._call_agent(entry, meant)
        if command.is_subtask:
            return replace(meant, agent=self._add_agent(entry))
        if command.model:
            self._tell(
                f"model {command.path}",
                f"/{entry.name} asks for the model {command.model!r}; the session's model answers."
                " `/model` changes it.",
            )
        return meant

    async def _call_agent(self, entry: CommandEntry, meant: Interpretation) -> Interpretation:
        from hilum_agents import AgentCall, Agents
        from hilum_agents.prompts import call_agent

        name = entry.file.agent.casefold().lstrip("@")
        agents = self._session.plugin(Agents)
        try:
            if agents is None:
                raise UsageError("The plugin `agents` is not loaded.")
            task = "\n\n".join(filter(None, [meant.text, meant.attached]))
            found = await call_agent(agents, AgentCall(name, task))
        except HilumError as error:
            self._tell(
                f"agent {entry.file.path}",
                f"/{entry.name} asks for the agent {name!r}; the main agent answers. {error}",
            )
            return meant
        if isinstance(found, str):
            return replace(meant, reply=found)
        return replace(meant, agent=found.name)

    def _add_agent(self, entry: CommandEntry) -> str:
        """Add an agent with a conversation of its own, and return its name."""
        from hilum_agents.definitions.models import read_model

        names = (f"{entry.name.replace(':', '-')}-{number}" for number in range(1, 10_000))
        name = next(name for name in names if name not in self._session.agents)
        profile = self._session.agents["main"].profile
        model = read_model(entry.file.model).model or profile.model
        if model != profile.model:
            try:
                self._session.kernel.router.model(model)
            except HilumError as error:
                model = profile.model
                self._tell(
                    f"model {entry.file.path}",
                    f"/{entry.name} asks for the model {entry.file.model!r}; the session's model"
                    f" answers. {error}",
                )
        self._session.add_agent(replace(profile, name=name, model=model))
        return name

    def _report(self, used: CommandEntry) -> None:
        """Report the problems of a command once per session, and only the number of all others."""
        mine = [
            each
            for entry in self.catalog.entries
            if used.name in (entry.name, entry.file.name)
            for each in entry.describe_problems()
        ]
        lines = [each for each in mine if each not in self._reported][:MAX_NOTED]
        self._reported.update(mine)
        problems = self.catalog.describe_problems()
        others = len(set(problems).difference(mine))
        if others and _OTHERS not in self._reported:
            self._reported.add(_OTHERS)
            number = f"{others} problem" if others == 1 else f"{others} problems"
            lines.append(f"{number} in other command files: `hilum commands` shows them.")
        if lines:
            self._session.note("commands.problems", say="\n".join(lines), problems=problems[:200])

    def _tell(self, key: str, say: str) -> None:
        if key not in self._reported:
            self._reported.add(key)
            self._session.note("commands.ignored", say=say)


def _is_literal() -> bool:
    """Return whether a model wrote the prompt, which is then plain text."""
    from hilum_agents.authoring import prompts_are_literal

    return prompts_are_literal()


@functools.cache
def list_fixed_names() -> frozenset[str]:
    """Return the names that no file can take in any session.

    They are the commands of the terminal and the sub-commands of hilum, which it also offers.
    """
    return TERMINAL_NAMES.union(list_program_commands())
