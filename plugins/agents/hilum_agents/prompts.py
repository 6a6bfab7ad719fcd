"""Handles prompts that call an agent or contain the command ``/agents``."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from hilum import Agent, HilumError, Interpretation, Session

from hilum_agents.agents import Agents
from hilum_agents.calls import AgentCall, may_call, read_call, read_unknown
from hilum_agents.folders import has_agents
from hilum_agents.runs.runs import Runs

if TYPE_CHECKING:
    from hilum_agents.definitions.catalog import Catalog

COMMAND = "/agents"


async def interpret(agents: Agents, text: str) -> Interpretation | None:
    """Return the interpretation of a prompt that is an agent call or command, otherwise ``None``.

    Args:
        agents: The agents of the session.
        text: The prompt.
    """
    words = text.strip()
    # A text that begins with a space is neither a command nor a call, so that users can send any text
    # as a prompt.
    command = text.rstrip()
    if command == COMMAND or command.startswith((f"{COMMAND} ", f"{COMMAND}\t")):
        reply = await _run_command(agents, command.removeprefix(COMMAND))
        return Interpretation(text, reply=reply)
    # Other plugins handle shell lines and other commands.
    if not agents.settings.by_name or not words or words[0] in "!/" or text.startswith(" "):
        return None
    if not await _depends_on_agents(agents, words):
        return None
    catalog = await agents.refresh()
    names = catalog.names
    call = read_call(words, names)
    if call is None and words.startswith("@"):
        # The user is told what is wrong with the file of this name. Other phrasings stay text.
        call = read_call(words, [entry.definition.name for entry in catalog.entries])
    if call is None:
        call = _read_written_call(words, catalog)
    if call is None:
        _report_unknown(agents.session, words, names)
        return None
    try:
        found = await call_agent(agents, call)
    except HilumError as error:
        return Interpretation(text, reply=_describe_error(error))
    if isinstance(found, str):
        return Interpretation(text, reply=found)
    return Interpretation(call.prompt, found.name)


def _read_written_call(words: str, catalog: Catalog) -> AgentCall | None:
    """Return the call of an agent by a name that is not ASCII, such as 写手."""
    first_line = words.partition("\n")[0].casefold()
    for entry in (*catalog.on(), *catalog.entries):
        name = entry.definition.name
        for written in entry.definition.written_names:
            place = first_line.find(written)
            if place < 0:
                continue
            # The sentence is read as if it had the agent's name in this place.
            replaced = f"{words[:place]}{name}{words[place + len(written) :]}"
            call = read_call(replaced, [name])
            if call is not None:
                return call
    return None


async def _depends_on_agents(agents: Agents, words: str) -> bool:
    """Return whether the interpretation of a prompt depends on which agents are defined.

    Most prompts call no agent, and most users have defined no agents, so the scan is usually
    unnecessary.
    """
    if agents.is_searched or may_call(words):
        return True
    root = agents.session.workspace.root
    return await trio.to_thread.run_sync(has_agents, root, agents.settings.folders)


async def call_agent(agents: Agents, call: AgentCall) -> Agent | str:
    """Return the session's agent that a call names, creating the agent on the first call.

    Returns:
        The agent, or a message to the user if the agent was queued.

    Raises:
        UsageError: The agent cannot be called.
    """
    session = agents.session
    definition, profile = await agents.prepare(call.name)
    runs = session.plugin(Runs)
    # A queued agent answers later, so the prompt gets a reply instead of starting a run.
    if runs is not None and not runs.can_begin(definition.name):
        identity = runs.begin(profile, call.prompt, keep=True, definition=definition)
        step = runs.status(identity)["current_step"]
        return f"{definition.name} was started as {identity}: {step}"
    agent = session.agents.get(definition.name)
    if agent is not None and agent.conversation.phase != "idle":
        return agent  # a run keeps the definition with which it started
    if runs is not None:
        agent = runs.join(profile)
    elif agent is None:
        agent = session.add_agent(profile)
    else:
        agent.profile = profile  # the file may have changed since the last call
    agents.bind(agent.name, definition)
    return agent


def _report_unknown(session: Session, words: str, names: list[str]) -> None:
    """Report a prompt that seems to call a nonexistent agent."""
    missing = read_unknown(words, names)
    if not missing:
        return
    name, nearest = missing
    say = f"There is no agent {name!r}."
    if nearest:
        say += f" Did you mean {nearest}?"
    session.note("agents.unknown", say=say, agent=name, nearest=nearest)


async def _run_command(agents: Agents, line: str) -> str:
    """Return the output of a command typed after ``/agents``."""
    # The import is here because it loads the parsers of all actions, which few sessions need.
    from hilum_agents.command_context import CommandContext
    from hilum_agents.dispatch import run_line

    out = StringIO()
    context = CommandContext(
        Path(agents.session.workspace.root),
        agents.settings,
        out,
        in_session=agents,
    )
    try:
        await run_line(line, context)
    except HilumError as error:
        out.write(_describe_error(error))
    return out.getvalue().strip()


def _describe_error(error: HilumError) -> str:
    """Return an error as a reply: the message, and what to do on a line of its own."""
    return f"{error.message}\n{error.hint}".strip()
