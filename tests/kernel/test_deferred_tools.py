"""Tools without use yet are not in the tool list, can be found and called, and are announced once
they are of use.
"""

import json

import msgspec
import pytest
from hilum import tool
from hilum.events import CallDone, RoundEnded
from hilum.testing import plugin, use


@tool(risk="read", effect="pure")
def look(path: str) -> str:
    """Look at a file.

    Args:
        path: The file.
    """
    return f"seen {path}"


@tool(risk="write", effect="once")
def change(path: str) -> str:
    """Change a file."""
    return "changed"


@tool(risk="read", effect="pure", deferred=True)
def rare(name: str, depth: int = 1) -> str:
    """Do a rare thing.

    Args:
        name: Of the thing.
    """
    return f"rare {name} {depth}"


def names(request):
    return [spec.name for spec in request.tools]


def with_tools(*tools):
    return plugin("own", provide_tools=lambda: list(tools))


async def test_a_deferred_tool_is_named_by_find_tools_and_called_through_call_tool(bench):
    """It costs a name in each request instead of a description, and works all the same."""
    arguments = {"name": "rare", "arguments": {"name": "x", "depth": 2}}
    answers = [use("find_tools", query="rare thing"), use("call_tool", **arguments), "done"]
    kit = await bench(with_tools(look, rare), answers=answers)
    await kit.run("go")
    assert names(kit.requests[0]) == ["look", "find_tools", "call_tool"]
    assert "There are: rare." in kit.requests[0].tools[1].description
    found, called = [done.result.text for done in kit.of(CallDone)]
    assert '"depth"' in found
    assert called == "rare x 2"


async def test_without_deferred_tools_there_is_no_pair(bench):
    """What would find nothing is not offered."""
    kit = await bench(with_tools(look), answers=["done"])
    await kit.run("go")
    assert names(kit.requests[0]) == ["look"]


async def test_a_tool_that_becomes_useful_is_announced_with_its_parameters(bench):
    """Within a run the tool list stays as it is.

    A note names the tool, and the next run lists it.
    """
    started = []

    @tool(risk="execute", effect="once")
    def start() -> str:
        """Start a service."""
        started.append(True)
        return "s1"

    @tool(risk="read", effect="pure", deferred=lambda agent: not started)
    def follow(service: str, lines: int = 10) -> str:
        """Follow a service."""
        return f"{service}: up"

    arguments = {"name": "follow", "arguments": {"service": "s1"}}
    answers = [use("start"), use("call_tool", **arguments), "done", "again"]
    kit = await bench(with_tools(start, follow), answers=answers, approve="auto")
    await kit.run("go")
    assert [names(request) for request in kit.requests] == [
        ["start", "find_tools", "call_tool"]
    ] * 3
    notes = [event.notes for event in kit.of(RoundEnded)]
    assert notes[0] == ("New tools, to be called through call_tool: follow(service, lines?).",)
    assert notes[1] == ()
    assert kit.of(CallDone)[-1].result.text == "s1: up"
    await kit.run("again")
    assert names(kit.requests[-1]) == ["start", "follow"]


async def test_a_tool_that_cannot_say_whether_it_is_deferred_is_a_fault_of_its_plugin(bench):
    """The others are listed, and the run goes on."""

    def broken(agent):
        raise RuntimeError("no idea")

    @tool(risk="read", effect="pure", deferred=broken)
    def odd() -> str:
        """Do something odd."""
        return ""

    kit = await bench(with_tools(look, odd), answers=["done"], faults=True)
    await kit.run("go")
    assert names(kit.requests[0]) == ["look"]
    assert [(fault.plugin, fault.hook) for fault in kit.faults] == [("own", "tool odd")]


@pytest.mark.parametrize(
    ("approve", "listed"), [("readonly", ["look"]), ("auto", ["look", "change"])]
)
async def test_a_read_only_session_offers_tools_that_read(bench, approve, listed):
    """What would be denied in any case is not offered."""
    kit = await bench(with_tools(look, change), answers=["done"], approve=approve)
    await kit.run("go")
    assert names(kit.requests[0]) == listed


async def test_schemas_leave_out_what_tells_a_model_nothing(bench):
    """No null alternatives, no empty defaults, no titles.

    What the function accepts stays the same.
    """

    @tool(risk="read", effect="pure")
    def pick(
        name: str,
        deep: int | None = None,
        words: list[str] | None = None,
        loud: bool = False,
        depth: int = 2,
    ) -> str:
        """Pick.

        Args:
            deep: How deep.
        """
        return f"{name} {deep} {words} {loud} {depth}"

    assert pick.spec.parameters["properties"] == {
        "name": {"type": "string"},
        "deep": {"type": "integer", "description": "How deep."},
        "words": {"type": "array", "items": {"type": "string"}},
        "loud": {"type": "boolean"},
        "depth": {"type": "integer", "default": 2},
    }
    assert pick.check(json.dumps({"name": "a", "deep": None, "words": None})) == {
        "name": "a",
        "deep": None,
        "words": None,
        "loud": False,
        "depth": 2,
    }
    assert msgspec.json.encode(pick.spec.parameters).count(b"title") == 0


@pytest.mark.parametrize("name", ["call_tool", "find_tools"])
async def test_call_tool_does_not_call_the_pair(bench, name):
    """It says so, and no plugin is charged with it."""
    inner = (
        {"name": "rare", "arguments": {"name": "x"}} if name == "call_tool" else {"query": "rare"}
    )
    kit = await bench(with_tools(look, rare))
    result = await kit.call("call_tool", name=name, arguments=inner)
    assert result.code == "E_BAD_ARGS"
    assert f"{name} is in your tool list" in result.text
    assert kit.faults == []
