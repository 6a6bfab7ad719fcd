"""Keeps texts short: a layer of the system prompt, a note after a round of calls, and a setting."""

from collections.abc import Sequence

from hilum import Agent, Layer, ToolResult, hookimpl, section, setting


@section("style")
class StyleSettings:
    """The settings in the table [style]."""

    most_words: int = setting(default=500, minimum=1, help="Maximum number of words in a text.")


@hookimpl
def build_prompt_layer(agent: Agent) -> Layer:
    most = agent.session.settings(StyleSettings).most_words
    return Layer(45, "style", f"Write texts of at most {most} words.")


@hookimpl
def remind(results: Sequence[ToolResult]) -> str | None:
    if any(result.name == "write_file" and not result.code for result in results):
        return "Count the words in the text that you wrote."
    return None
