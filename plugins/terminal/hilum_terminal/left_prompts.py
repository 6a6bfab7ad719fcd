"""Prompts that waited when an earlier process ended without stopping its runs.

Such a prompt is not sent again before the user has confirmed it: it returns to the input. It stays
in the session's queue until the user sends something else or continues the run, so that it is not
lost if hilum is killed again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import attrs
from hilum import Image, Session
from hilum.events import PromptQueued
from msgspec.structs import replace


@attrs.frozen
class LeftPrompt:
    """A prompt that was queued and never started.

    Attributes:
        agent: Name of the agent that it was for.
        run: Id of its run.
        text: What the user typed.
        attached: Text that would have been sent with it, such as the output of a command.
        images: The images that would have been sent with it.
    """

    agent: str
    run: str
    text: str
    attached: str = ""
    images: Sequence[Image] = ()


def find_left_prompts(session: Session) -> list[LeftPrompt]:
    """Return the user's prompts that an earlier process left in the queue, oldest first."""
    found = []
    for agent in session.agents.values():
        # Other agents and programs queue prompts, too, and resume them themselves.
        if agent.parent:
            continue
        for prompt in agent.conversation.queue:
            if prompt.run in session.runs or prompt.piped:
                continue
            text = prompt.typed or prompt.text
            left = LeftPrompt(agent.name, prompt.run, text, prompt.attached, prompt.images)
            found.append((prompt.seq, left))
    return [left for _, left in sorted(found, key=lambda each: each[0])]


def drop_left_prompts(session: Session, prompts: Sequence[LeftPrompt]) -> None:
    """Remove prompts from the queue, because the user has decided about them.

    Raises:
        StoreError: The log cannot be written.
    """
    for prompt in prompts:
        agent = session.agents.get(prompt.agent)
        if agent is None:
            continue
        if any(queued.run == prompt.run for queued in agent.conversation.queue):
            session.stop(prompt.agent, run=prompt.run)


def take_waiting_prompts(session: Session) -> list[tuple[str, PromptQueued]]:
    """Withdraw what the user's agents have not read yet, so that the session can close.

    Returns:
        Names of agents, and prompts for ``leave_prompts``: steering messages first, because the
        user wrote them for the run that is now stopped.

    Raises:
        StoreError: The log cannot be written.
    """
    taken = []
    for agent in session.agents.values():
        if agent.parent:
            continue
        conversation = agent.conversation
        for message in list(conversation.steering):
            if session.withdraw(message.id, agent=agent.name):
                prompt = PromptQueued(text=message.text, redacted=message.redacted)
                taken.append((agent.name, prompt))
        for prompt in list(conversation.queue):
            # Prompts of an earlier process are left anyway.
            if prompt.run in session.runs and prompt.run != agent.starting and not prompt.piped:
                session.stop(agent.name, run=prompt.run)
                taken.append((agent.name, prompt))
    return taken


def leave_prompts(session: Session, prompts: Sequence[tuple[str, PromptQueued]]) -> None:
    """Queue prompts for the process that resumes the session; they do not run in this one.

    Raises:
        StoreError: The log cannot be written.
    """
    for name, prompt in prompts:
        # No run of this process has the new id, so the prompt does not start.
        session.emit(replace(prompt, agent="", run=""), session.agents[name], os.urandom(6).hex())


def describe_left_prompts(prompts: Sequence[LeftPrompt]) -> str:
    """Return a sentence that says what happened to the prompts."""
    if len(prompts) == 1:
        return "A prompt was waiting when hilum ended. It was not sent: send it if you want it."
    return (
        f"{len(prompts)} prompts were waiting when hilum ended. They were not sent: edit and send"
        " what you want."
    )
