"""Names of tools: checked where tools are collected, and told where they are missing."""

from hilum import tool
from hilum.errors import E_UNKNOWN_TOOL
from hilum.events import PluginFault
from hilum.testing import plugin, use


def named(name):
    """A tool of that name."""

    @tool(risk="read", name=name)
    def function() -> str:
        """Do something."""
        return "done"

    return function


async def test_bad_names_are_a_fault_and_the_other_tools_stay(bench):
    """Plugin and tool are named; nothing of it reaches the provider."""
    bad = ["bad name!", "", "x" * 65, "é", "a.b", "a\n"]
    kit = await bench(
        plugin("tools", *map(named, bad), named("good"), named("x" * 64)),
        answers=["ok"],
        faults=True,
    )
    await kit.run("x")
    faults = kit.of(PluginFault)
    assert {fault.plugin for fault in faults} == {"tools"}
    assert len(faults) == len(bad)
    assert "bad name!" in faults[0].error
    assert [spec.name for spec in kit.requests[0].tools] == ["good", "x" * 64]


async def test_tools_of_a_plugin_that_is_off_say_so(bench):
    """The model reads which plugin is off and why, not that there is no tool."""

    def broken():
        raise ValueError("no luck")

    half = plugin("tools", named("good"))
    half.remind = broken
    kit = await bench(half, answers=[use("good")] * 2 + ["ok"], faults=True)
    kit.session.hooks.record_failure("tools", "lifespan", ValueError("no luck"), "it crashed")
    await kit.run("x")
    assert kit.results[0].code == E_UNKNOWN_TOOL
    assert "The plugin tools, which provides the tool good, is off" in kit.results[0].text
    assert "no luck" in kit.results[0].text


async def test_an_unknown_tool_gets_all_names(bench):
    """Thirty tools are listed in full."""
    kit = await bench(
        plugin("tools", *[named(f"tool_{n:02}") for n in range(30)]), answers=[use("zzz"), "ok"]
    )
    await kit.run("x")
    assert all(f"tool_{n:02}" in kit.results[0].text for n in range(30))
