"""Runs the hooks of Claude Code's settings files, in the sandbox and under hilum's own rules.

A session without hooks only checks whether a settings file exists: nothing else is imported.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import trio
from hilum import Interpretation, PromptCommand, RecordedResults, hookimpl

from hilum_hooks_claude import lazy, paths
from hilum_hooks_claude.settings import HooksSettings

if TYPE_CHECKING:
    from hilum import Agent, ModelCall, Session, ToolCall, ToolResult

    from hilum_hooks_claude.session_hooks import SessionHooks

__all__ = [
    "HooksSettings",
    "NoHooks",
    "SessionHooks",
    "interpret_prompt",
    "list_commands",
    "open_session",
]

# Hooks may refuse a call, a prompt or an answer, so no call runs while the plugin does not work.
gates = ("check_answer", "check_result", "on_model_call", "on_tool_call")


def __getattr__(name: str) -> Any:
    if name != "SessionHooks":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lazy.session_hooks.SessionHooks


class NoHooks:
    """The instance in a session without settings files: its gates have no opinion."""

    @hookimpl
    def on_tool_call(self, agent: Agent, call: ToolCall) -> None:
        """Have no opinion on a call."""

    @hookimpl
    def check_result(self, agent: Agent, result: ToolResult) -> None:
        """Leave a result as it is."""

    @hookimpl
    def check_answer(self, agent: Agent) -> None:
        """Have no objection to an answer."""

    @hookimpl
    def on_model_call(self, agent: Agent, call: ModelCall) -> None:
        """Admit a request."""


@hookimpl
async def open_session(session: Session) -> AsyncIterator[NoHooks | SessionHooks]:
    """Yield the session's hooks, and run those about its end when it closes."""
    is_replay = session.kernel.plugin(RecordedResults) is not None
    if not is_replay and not paths.has_settings_file(session.workspace.root):
        yield NoHooks()
        return
    settings = session.settings(HooksSettings)
    async with trio.open_nursery() as nursery:
        hooks = lazy.session_hooks.SessionHooks(session, settings, nursery)
        await trio.to_thread.run_sync(hooks.read)
        await hooks.begin()
        yield hooks
        await hooks.end()
        nursery.cancel_scope.cancel()


@hookimpl
def list_commands() -> list[PromptCommand]:
    """Return the command ``/hooks``."""
    return [PromptCommand("hooks", "List the hooks of Claude Code's settings files")]


@hookimpl
async def interpret_prompt(session: Session, text: str) -> Interpretation | None:
    """Run ``/hooks``, which lists the hooks. A prompt, which a model may write, approves nothing."""
    # A space before the command makes it plain text.
    word, _, rest = text.rstrip().partition(" ")
    if word != "/hooks":
        return None
    rows = await trio.to_thread.run_sync(lazy.listing.list_hooks, session.workspace.root)
    if rest:
        rows.append("Only `hilum hooks` in a shell approves and refuses hooks.")
    return Interpretation(text, reply="\n".join(rows))
