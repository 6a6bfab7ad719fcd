"""Counts words, and has the model keep its texts short."""

from hilum import Agent, Call, Layer, Tool, hookimpl, section, setting, tool


@section("template")
class TemplateSettings:
    """What a user may set under ``[template]``."""

    most_words: int = setting(default=500, minimum=1, help="Words that a text should not exceed.")


@tool(risk="read", effect="pure")
async def count_words(call: Call, path: str) -> str:
    """Count the words of a text file.

    Args:
        path: File to count, relative to the workspace.
    """
    text = await call.workspace.read_text(path)
    return f"{len(text.split())} words"


@hookimpl
def provide_tools() -> list[Tool]:
    """Return the tool to every session."""
    return [count_words]


@hookimpl
def build_prompt_layer(agent: Agent) -> Layer:
    """Tell the model the limit. Ranks order the layers: rules are 40, skills 50."""
    most = agent.session.settings(TemplateSettings).most_words
    return Layer(
        45, "template", f"A text you write has at most {most} words. Count them when in doubt."
    )
