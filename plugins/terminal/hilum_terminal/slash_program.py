"""Runs ``hilum`` commands as child processes, and shows their output."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

import trio
from hilum import Session, UsageError
from hilum.errors import E_BAD_ARGS
from hilum.events import ApprovalAnswered, ApprovalAsked
from hilum.services import StoredApprovals

from hilum_terminal.chat_protocol import Chat, CommandOutput
from hilum_terminal.slash_arguments import split_words

# Commands that need the terminal or do not end by themselves, and what to use instead.
NOT_AS_CHILD = {
    ("sessions", "resume"): "Use /resume.",
    ("mcp", "serve"): "Run it in another terminal.",
}

# Width, in columns, of the subjects in the output of `hilum doctor`.
SUBJECT_WIDTH = 14


async def run_program(chat: Chat, name: str, arguments: str) -> None:
    """Run ``hilum NAME ARGUMENTS``, and show its output.

    Raises:
        UsageError: The command needs the terminal, or its arguments cannot be split.
    """
    words = split_words(arguments)
    instead = NOT_AS_CHILD.get((name, words[0])) if words else None
    if instead:
        raise UsageError(
            f"hilum {name} {words[0]} cannot run inside a conversation.",
            code=E_BAD_ARGS,
            hint=instead,
        )
    show_output(chat, await chat.run_hilum([name, *words]))


def show_output(chat: Chat, output: CommandOutput) -> None:
    """Show a command's output."""
    if output.out.strip():
        chat.say(output.out.rstrip())
    if output.err.strip():
        chat.say(output.err.rstrip(), style="bad" if output.code else "dim")
    if output.code and not output.err.strip():
        # A list with an exit code has shown what is wrong, or what waits for the user.
        if output.out.strip():
            chat.say(f"Exit code {output.code}", style="dim")
        else:
            chat.say(f"The command failed with exit code {output.code}.", style="bad")
    if not output.code and not output.out.strip() and not output.err.strip():
        chat.say("Done.", style="dim")


async def trust(chat: Chat, arguments: str) -> None:
    """Trust this folder, and offer to load its extensions."""
    words = split_words(arguments)
    output = await chat.run_hilum(["trust", *words])
    show_output(chat, output)
    if output.code or _is_only_reading(words):
        return
    reload = await chat.confirm(
        "Open this conversation again, so that the change takes effect?",
        yes="Open again",
        no="Later",
    )
    if reload and not chat.session.runs:
        await chat.reopen(resume=chat.session.id)
    elif reload:
        chat.say("The agent is running. Run /trust again when it has finished.", style="warning")


def _is_only_reading(words: Sequence[str]) -> bool:
    return any(word in ("--list", "--help", "-h", "--json") for word in words)


async def doctor(chat: Chat, arguments: str) -> None:
    """Check the installation, and show the terminal and the settings of this conversation."""
    words = split_words(arguments)
    if any(word in ("--json", "--help", "-h") for word in words):
        await run_program(chat, "doctor", arguments)
        return
    # The child process writes to a pipe, and does not know what this conversation uses.
    output = await chat.run_hilum(["doctor", "--in-conversation", *words])
    rows = "\n".join(_describe_conversation(chat))
    show_output(chat, CommandOutput(output.code, f"{output.out.rstrip()}\n{rows}", output.err))


def _describe_conversation(chat: Chat) -> list[str]:
    """Return the terminal and the settings of this conversation, as rows of `hilum doctor`."""
    session = chat.session
    size = shutil.get_terminal_size()
    kind = os.environ.get("TERM") or "unknown type"
    model = session.kernel.router.resolve(session.model) or "none"
    settings = f"model {model}, mode {session.mode.name}, approval policy {session.approve}"
    found = {"terminal": f"{kind}, {size.columns} columns", "conversation": settings}
    return [f"ok    {subject:{SUBJECT_WIDTH}}  {text}" for subject, text in found.items()]


async def permissions(chat: Chat, arguments: str) -> None:
    """Show the session's approvals and the rules, or change the rules."""
    grants = chat.session.grants
    if not arguments:
        chat.say(f"Approval of calls: {chat.session.approve} (/approve changes it)")
        if grants:
            stored = await _find_stored(chat.session)
            listed = "\n".join(
                f"  {grant}{' (and later, by a rule)' if grant in stored else ''}"
                for grant in sorted(grants)
            )
            chat.say(
                f"Allowed until this conversation ends (/permissions remove revokes it):\n{listed}"
            )
    action, _, rule = arguments.partition(" ")
    if action == "remove" and await _revoke(chat, rule.strip()):
        return
    await run_program(chat, "permissions", arguments)


async def _find_stored(session: Session) -> Sequence[str]:
    """Return the approvals of this session that are also stored as rules."""
    rules = session.plugin(StoredApprovals)
    if rules is None:
        return ()
    return await trio.to_thread.run_sync(rules.find_stored_approvals, session.grants)


async def _revoke(chat: Chat, rule: str) -> bool:
    """Revoke approvals in this session; return whether no stored rule has to be removed."""
    session = chat.session
    if not session.revoke(rule):
        return False
    chat.say(f"No longer allowed in this conversation: {rule}")
    return not await _was_stored(session, rule)


async def _was_stored(session: Session, scope: str) -> bool:
    """Return whether an approval in this session was given "forever", which also stores a rule.

    The log is read in pages up to such an answer, because a long log needs much memory.
    """
    asked: set[str] = set()
    position = 0
    while page := session.journal.since(position):
        position = page[-1].seq
        for event in page:
            if isinstance(event, ApprovalAsked) and scope in (event.scope, event.call.name):
                asked.add(event.id)
            elif isinstance(event, ApprovalAnswered) and event.id in asked:
                if event.remember == "always":
                    return True
                asked.discard(event.id)
        # Keys must be handled between two pages.
        await trio.lowlevel.checkpoint()
    return False
