"""Commands for background commands and agents, and for queued prompts."""

from __future__ import annotations

from typing import cast

import attrs
import trio
from hilum import BackgroundCommands, UsageError
from hilum.errors import unknown_name_error
from hilum.services import BackgroundCommand
from hilum.shell_lines import stop_background_command
from hilum_view import AgentView, first_line, format_duration

from hilum_terminal.chat_protocol import Chat, Choice
from hilum_terminal.panels import STEERING_TITLE
from hilum_terminal.slash_arguments import refuse_arguments


@attrs.frozen
class Running:
    """A command or an agent that runs in the background.

    Attributes:
        id: Id of the command or agent.
        what: Description on one line.
        command: The command; ``None`` for an agent.
    """

    id: str
    what: str
    command: BackgroundCommand | None = None


def find_running(chat: Chat) -> list[Running]:
    """Return the background commands and agents that have not ended."""
    found = []
    commands = chat.session.plugin(BackgroundCommands)
    now = trio.current_time()
    for command in commands.running() if commands else ():
        since = format_duration(max(now - command.began, 0))
        # The title of a command begins with its id, which is shown separately.
        line = first_line(command.command)
        found.append(Running(command.id, f"command · {since} · {line}", command))
    for agent in chat.view.agents.open():
        found.append(Running(agent.id, _describe_agent(agent)))
    return found


def _describe_agent(agent: AgentView) -> str:
    doing = agent.doing or agent.status.replace("_", " ")
    facts = [f"agent {agent.name}", doing, agent.title]
    return " · ".join(fact for fact in facts if fact)


async def list_running(chat: Chat, arguments: str) -> None:
    """List the background commands and agents."""
    refuse_arguments("ps", arguments)
    running = find_running(chat)
    if not running:
        chat.say("Nothing runs in the background.", style="dim")
        return
    lines = [f"{item.id}  {item.what}" for item in running]
    chat.say("\n".join(lines))
    chat.say("/stop ID ends one of them.", style="dim")


async def stop(chat: Chat, arguments: str) -> None:
    """Stop a background command or agent."""
    running = find_running(chat)
    if arguments == "all":
        chosen = running
    elif arguments:
        chosen = [item for item in running if item.id == arguments]
        if not chosen:
            known = [item.id for item in running]
            hint = "Nothing runs in the background. To stop the agent, press Esc."
            raise unknown_name_error(
                "command or agent in the background", arguments, known, hint=hint
            )
    else:
        choices = [Choice(item, item.what, item.id) for item in running]
        choice = await chat.choose(
            "Stop",
            choices,
            empty="Nothing runs in the background. To stop the agent, press Esc.",
        )
        if choice is None or not isinstance(choice.value, Running):
            return
        chosen = [choice.value]
    for item in chosen:
        await _stop(chat, item)
    names = ", ".join(item.id for item in chosen) or "nothing"
    chat.say(f"Stopped: {names}", style="dim")


async def _stop(chat: Chat, item: Running) -> None:
    if item.command is not None:
        await stop_background_command(item.command)
        return
    # The plugin that runs agents can also stop agents that wait for a slot, which are unknown to
    # the session. Without the plugin, the command would be sent to the model.
    if "agents" not in [command.name for _, command in chat.session.list_commands()]:
        raise UsageError("The plugin that runs agents is not open.", code="E_PLUGIN")
    await chat.session.prompt(f"/agents stop {item.id}")


async def complete_running(chat: Chat, typed: str) -> list[Choice]:
    """Return the background commands and agents that can be stopped."""
    choices = [Choice(item.id, item.id, item.what) for item in find_running(chat)]
    if len(choices) > 1:
        choices.append(Choice("all", "all"))
    return choices


async def move_to_background(chat: Chat, arguments: str) -> None:
    """Move the commands that the agents are waiting for to the background."""
    refuse_arguments("background", arguments)
    commands = chat.session.plugin(BackgroundCommands)
    moved = commands.move_waiting() if commands else 0
    if not moved:
        chat.say("The agent is not waiting for a command.", style="dim")
        return
    what = "The command continues" if moved == 1 else f"{moved} commands continue"
    chat.say(f"{what} in the background. /ps lists them, /stop ends one of them.", style="dim")


# --- prompts that wait ----------------------------------------------------------------------------


async def queue(chat: Chat, arguments: str) -> None:
    """Show the queued prompts, and move one of them back to the input."""
    refuse_arguments("queue", arguments)
    actor = chat.view.lead_actor
    choices = [
        Choice(("message", identity), first_line(text) or "(empty)", STEERING_TITLE, text)
        for identity, text in actor.steering.items()
    ]
    choices += [
        Choice(("prompt", run), first_line(text) or "(empty)", preview=text)
        for run, text in actor.queued.items()
        if run in chat.session.runs and not _is_starting(chat, run)
    ]
    choice = await chat.choose("Take a waiting prompt back", choices, empty="No prompt is waiting.")
    if choice is None:
        return
    kind, identity = cast("tuple[str, str]", choice.value)
    if kind == "message":
        text = actor.steering.get(identity, "")
        if not chat.session.withdraw(identity, agent=chat.view.lead):
            chat.say("The agent has just read that message.", style="warning")
            return
    else:
        text = chat.view.lead_actor.queued.get(identity, "")
        if not text or _is_starting(chat, identity):
            chat.say("That prompt has just begun.", style="warning")
            return
        chat.session.stop(chat.view.lead, run=identity)
    chat.set_draft(text)


def _is_starting(chat: Chat, run: str) -> bool:
    """Return whether a queued prompt is about to run, so that it cannot be taken back."""
    agent = chat.session.agents.get(chat.view.lead)
    return agent is not None and agent.starting == run
