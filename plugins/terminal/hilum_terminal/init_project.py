"""``/init``: the agent writes AGENTS.md, or hilum drafts the file if there is no model."""

from __future__ import annotations

from hilum import HilumError

from hilum_terminal.chat_protocol import Chat

DRAFT = ("init", "--draft")


async def init_project(chat: Chat, arguments: str) -> None:
    """Let the session's agent write AGENTS.md; without a model, offer hilum's draft.

    Args:
        chat: The conversation.
        arguments: Topics that the file should focus on; empty for all topics.
    """
    if not await _has_model(chat):
        await _draft(chat)
        return
    try:
        # The plugin that reads rules turns the command into a prompt for the agent. The usual
        # approval rules apply when the agent writes the file.
        await chat.session.prompt(f"/init {arguments}".strip())
    except HilumError as error:
        chat.show_error(error)


async def _has_model(chat: Chat) -> bool:
    """Return whether a model is configured or was found, without calling the model."""
    router = chat.session.kernel.router
    try:
        router.model(chat.session.model or await router.default())
    except HilumError:
        return False
    return True


async def _draft(chat: Chat) -> None:
    """Write a draft of a new file, or offer to add the lines that an existing file lacks."""
    done = await chat.run_hilum(DRAFT)
    text = "\n".join(part.strip("\n") for part in (done.err, done.out) if part.strip())
    chat.say(text, style="plain" if done.code == 0 else "bad")
    is_diff = done.code == 0 and done.out.startswith("--- a/")
    if is_diff and await chat.confirm("Add these lines?", yes="Yes, add them"):
        applied = await chat.run_hilum((*DRAFT, "--apply"))
        chat.say(applied.err.strip())
