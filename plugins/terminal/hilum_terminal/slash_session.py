"""Commands that start, resume, copy, leave and export conversations."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from hilum import HilumError, StoreError, UsageError
from hilum.errors import E_BAD_ARGS, E_NOT_FOUND
from hilum.events import AnyEvent
from hilum.sharing import JoinedSession, is_shared
from hilum.store import SessionInfo, Store, UnreadableLog, is_used, spell_folder
from hilum_view import Answer, Outcome, Prompt, SessionView, first_line

from hilum_terminal.chat_protocol import Chat, Choice
from hilum_terminal.second_terminal import is_joined
from hilum_terminal.slash_arguments import refuse_arguments, split_words
from hilum_terminal.slash_rows import format_time

if TYPE_CHECKING:
    from hilum import Session

# Maximum number of sessions to list, and of the newest ones that get a preview.
MAX_LISTED = 200
MAX_PREVIEWED = 40
# Number of a session's last events that are used for its preview.
PREVIEW_EVENTS = 60
PREVIEW_CHARACTERS = 600
FORMATS = {"markdown": ".md", "html": ".html", "jsonl": ".jsonl"}
_FENCE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)^\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)


# --- running work ---------------------------------------------------------------------------------


async def stop_work(chat: Chat, purpose: str) -> bool:
    """Stop the session's runs, if any, after asking the user.

    Args:
        chat: The conversation.
        purpose: Why the runs are stopped, for example ``to go back``.

    Returns:
        Whether no run is left in the session.
    """
    session = chat.session
    # If another terminal has the session open, its work goes on there.
    if not session.runs or is_joined(session):
        return True
    agreed = await chat.confirm(
        f"The agent is working. Stop it {purpose}?", yes="Stop it", no="Let it work"
    )
    if not agreed:
        return False
    session.stop()
    for run in list(session.runs.values()):
        await run.wait()
    return True


async def read_events(session: Session) -> list[AnyEvent]:
    """Return all events of an open session."""
    events: list[AnyEvent] = []
    while page := session.journal.durable_since(events[-1].seq if events else 0):
        events += page
        # A long log is read in many pages; keys must be handled between pages.
        await trio.lowlevel.checkpoint()
    return events


# --- other conversations --------------------------------------------------------------------------


async def clear(chat: Chat, arguments: str) -> None:
    """Start a new conversation in place of this one."""
    refuse_arguments("clear", arguments)
    if not await stop_work(chat, "to start a new conversation"):
        return
    old = chat.session.id
    was_used = chat.view.totals.runs > 0
    await chat.reopen()
    if was_used:
        text = f"This is a new conversation. To return to the earlier one: /resume {old}"
        chat.say(text, style="dim")


async def fork(chat: Chat, arguments: str) -> None:
    """Continue in a copy of this conversation; the original is unchanged."""
    refuse_arguments("fork", arguments)
    if not await stop_work(chat, "to continue in a copy"):
        return
    old = chat.session.id
    copy = await chat.session.kernel.fork(old, queued=False)
    await reopen_copy(chat, copy)
    chat.say(f"This is a copy. To return to the original: /resume {old}", style="dim")


async def reopen_copy(chat: Chat, copy: str, draft: str = "") -> None:
    """Open a copy of the session, and delete the copy if it cannot be opened."""
    try:
        await chat.reopen(resume=copy, draft=draft, same=True)
    except HilumError:
        # The previous session is open again, with another kernel.
        with suppress(HilumError):
            await chat.session.kernel.store.delete(copy)
        raise


async def resume(chat: Chat, arguments: str) -> None:
    """Continue another conversation, which the user names by id or chooses from a list."""
    store = chat.session.kernel.store
    if arguments:
        chosen = (await store.info(arguments)).id
    else:
        choice = await chat.choose(
            "Continue a conversation",
            await _list_sessions(chat),
            empty="There is no other conversation in this folder.",
        )
        if choice is None:
            return
        chosen = str(choice.value)
    joined = chat.session if isinstance(chat.session, JoinedSession) else None
    is_left = joined is not None and joined.lost.is_set()
    if chosen == chat.session.id and not is_left:
        chat.say("This is the conversation that you are in.", style="dim")
        return
    # This is checked first, because this session must be closed before the other one can be opened.
    if await store.is_open(chosen) and not await is_shared(chat.session.kernel, chosen):
        raise StoreError(
            f"Session {chosen} is in use.",
            code="E_BUSY",
            hint="Close it in the other terminal first, or continue in a copy of it:"
            f" hilum sessions fork {chosen}",
        )
    if await stop_work(chat, "to continue another conversation"):
        await chat.reopen(resume=chosen)


async def _list_sessions(chat: Chat) -> list[Choice]:
    session = chat.session
    store = session.kernel.store
    infos = await store.list(spell_folder(session.workspace.root))
    others = [info for info in infos if info.id != session.id and await is_used(store, info)]
    choices = []
    now = time.time()
    for number, info in enumerate(others[:MAX_LISTED]):
        preview = info.title
        hint = _describe_session(info, now)
        if number < MAX_PREVIEWED:
            try:
                preview = await _read_preview(store, info)
            except UnreadableLog as error:
                preview = f"{error.message}\n{error.hint}"
                hint += " · damaged" if error.is_damaged else " · unreadable"
        label = info.title or "(no prompt yet)"
        choices.append(Choice(info.id, label, hint, f"{info.id}\n{preview}"))
    return choices


async def _read_preview(store: Store, info: SessionInfo) -> str:
    # Event numbers have no gaps, so the last events can be read without the others.
    events = await store.read(info.id, max(info.events - PREVIEW_EVENTS, 0))
    return _make_preview(info, events)


def _describe_session(info: SessionInfo, now: float) -> str:
    """Return the time of a session, whether it is a copy, and how it ended unless it completed.

    The text is short, because the title of the session is next to it.
    """
    facts = [format_time(info.updated, now)]
    if info.forked:
        facts.append("copy")
    if info.state not in ("completed", "idle"):
        facts.append(info.state.replace("_", " "))
    return " · ".join(facts)


def _make_preview(info: SessionInfo, events: Sequence[AnyEvent]) -> str:
    """Return a preview of a session: the last prompts and answers in some of its events."""
    view = SessionView().apply_all(events)
    parts = [f"First prompt: {info.title}"]
    if info.forked:
        parts[0] += f"\nA copy of {info.forked}"
    for entry in view.entries:
        if isinstance(entry, Prompt) and entry.text:
            parts.append(f"> {_shorten(entry.text)}")
        elif isinstance(entry, Answer) and str(entry.text).strip() and entry.agent == "main":
            parts.append(_shorten(str(entry.text).strip()))
        elif isinstance(entry, Outcome) and entry.next_step:
            parts.append(f"[{first_line(entry.text)}]")
    return "\n\n".join([parts[0], *parts[1:][-4:]])


def _shorten(text: str) -> str:
    if len(text) <= PREVIEW_CHARACTERS:
        return text
    return text[:PREVIEW_CHARACTERS] + "…"


async def complete_sessions(chat: Chat, typed: str) -> list[Choice]:
    """Return the other sessions in this folder, newest first."""
    infos = await chat.session.kernel.store.list(spell_folder(chat.session.workspace.root))
    choices = []
    for info in infos:
        if info.id != chat.session.id:
            choices.append(Choice(info.id, info.id, info.title))
    return choices


async def rename(chat: Chat, arguments: str) -> None:
    """Give this conversation a title."""
    title = " ".join(arguments.split())
    if not title:
        given = await chat.ask("Title of this conversation")
        title = " ".join((given or "").split())
        if not title:
            return
    await chat.session.kernel.store.rename(chat.session.id, title)
    chat.say(f"This conversation is now called: {title}", style="dim")


# --- this conversation ----------------------------------------------------------------------------


async def compact(chat: Chat, arguments: str) -> None:
    """Compact the conversation to a summary, which can focus on a given subject."""
    session = chat.session
    agent = session.agents.get(chat.view.lead)
    if agent is None or not agent.conversation.messages:
        chat.say("There is nothing to compact yet.", style="dim")
        return
    is_running = bool(agent.conversation.pending)
    session.compact(chat.view.lead, focus=" ".join(arguments.split()))
    when = "before the next request" if is_running else "now"
    chat.say(f"The conversation is compacted {when}.", style="dim")


async def copy(chat: Chat, arguments: str) -> None:
    """Copy the last answer, or its last code block."""
    if arguments not in ("", "code"):
        raise UsageError(
            f"Unknown argument of /copy: {arguments!r}.",
            code=E_BAD_ARGS,
            hint="/copy copies the last answer, /copy code its last code block.",
        )
    text = _find_last_answer(chat.view)
    what = "the last answer"
    if not text:
        raise UsageError(
            "There is nothing to copy yet.", code=E_NOT_FOUND, hint="Wait for an answer."
        )
    if arguments == "code":
        text = _find_last_code(text)
        what = "the last block of code"
    if not text:
        raise UsageError(
            "The last answer contains no block of code.",
            code=E_NOT_FOUND,
            hint="/copy copies the whole answer.",
        )
    how = await chat.copy(text)
    chat.say(f"Copied {what} ({len(text):,} characters) {how}.", style="dim")


def _find_last_answer(view: SessionView) -> str:
    for entry in reversed(view.entries):
        if isinstance(entry, Answer) and entry.agent == view.lead and entry.state == "done":
            text = str(entry.text).strip()
            if text:
                return text
    return ""


def _find_last_code(answer: str) -> str:
    """Return the content of the last code block in an answer; empty if there is none."""
    blocks = _FENCE.findall(answer)
    if not blocks:
        return ""
    code: str = blocks[-1][1]
    return code.removesuffix("\n")


async def export(chat: Chat, arguments: str) -> None:
    """Write this conversation to a file."""
    format, path = _parse_export(arguments)
    session = chat.session
    name = path or f"hilum-{session.id}{FORMATS[format]}"
    target = os.path.join(session.workspace.root, name)
    command = ["sessions", "export", session.id, "--format", format, "-o", target]
    if await trio.Path(target).exists():
        agreed = await chat.confirm(f"{name} exists. Replace it?", yes="Replace it")
        if not agreed:
            return
        command.append("--force")
    output = await chat.run_hilum(command)
    if output.code:
        chat.say(output.err.strip() or output.out.strip(), style="bad")
    else:
        chat.say(f"Written: {name}")


def _parse_export(arguments: str) -> tuple[str, str]:
    """Return the format and the path from the arguments of ``/export``."""
    words = split_words(arguments)
    format = ""
    if words and words[0] in FORMATS:
        format = words.pop(0)
    if len(words) > 1:
        raise UsageError(
            "/export takes one file.",
            code=E_BAD_ARGS,
            hint="Put a path with spaces in quotes: /export 'my work.md'",
        )
    path = os.path.expanduser(words[0]) if words else ""
    if not format:
        suffix = Path(path).suffix.lower()
        by_suffix = {value: key for key, value in FORMATS.items()}
        by_suffix[".htm"] = "html"
        format = by_suffix.get(suffix, "markdown")
    return format, path


async def continue_run(chat: Chat, arguments: str) -> None:
    """Continue the last run if it was cut off, stopped or failed."""
    await chat.continue_run()


async def quit_program(chat: Chat, arguments: str) -> None:
    """Leave the program."""
    refuse_arguments("quit", arguments)
    chat.quit()
