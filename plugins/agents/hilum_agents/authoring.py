"""Treats prompts as plain text in a context, and asks the model to write texts for hilum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hilum import Profile, Session, ToolFilter, UsageError

# The state is a context variable, because prompts in other tasks may still call agents.
_literal: ContextVar[bool] = ContextVar("hilum_agents_literal", default=False)


@contextmanager
def literal_prompts() -> Iterator[None]:
    """Treat all prompts inside this context as plain text, never as agent calls."""
    token = _literal.set(True)
    try:
        yield
    finally:
        _literal.reset(token)


def prompts_are_literal() -> bool:
    """Return whether prompts are treated as plain text in this context."""
    return _literal.get()


async def write_with_model(session: Session, instructions: str, request: str) -> str:
    """Return a text that the session's model writes in a conversation without tools.

    Args:
        session: The session.
        instructions: The system prompt.
        request: The user's request.

    Raises:
        UsageError: The session has no model, or the model wrote nothing.
    """
    # Each text is written in a new conversation.
    number = sum(name.startswith("agent-author") for name in session.agents)
    profile = Profile(f"agent-author-{number}", instructions, tools=ToolFilter(()), turns=2)
    session.add_agent(profile)
    with literal_prompts():
        result = await session.run(request, agent=profile.name)
    if not result.text.strip():
        raise UsageError(
            f"The model wrote nothing. {result.error}".strip(), hint="Pass a prompt with --prompt."
        )
    return result.text
