"""Counts words, and asks the model to write short texts."""

from hilum import Agent, Call, Layer, Tool, hookimpl, section, setting, tool


@section("template")
class TemplateSettings:
    """The settings in the table ``[template]``."""

    most_words: int = setting(default=500, minimum=1, help="Maximum number of words in a text.")


@tool(risk="read", effect="pure")
async def count_words(call: Call, path: str) -> str:
    """Count the words in a text file.

    Args:
        path: File to count, relative to the workspace.
    """
    text = await call.workspace.read_text(path)
    return f"{len(text.split())} words"


@hookimpl
def provide_tools() -> list[Tool]:
    """Provide the tool to every session."""
    return [count_words]


@hookimpl
def build_prompt_layer(agent: Agent) -> Layer:
    """Return a prompt layer that states the limit."""
    most = agent.session.settings(TemplateSettings).most_words
    text = f"A text you write has at most {most} words. Count them when in doubt."
    # Ranks order the layers: rules have 40, skills 50. Layers that change least come first, so that
    # providers can cache the beginning of the prompt.
    return Layer(45, "template", text)
