"""A function is a tool: schema from signature and docstring, arguments checked, things injected."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hilum import Agent, Call, Output, PluginError, Session, Tool, ToolError, hookimpl, tool
from hilum.errors import E_BAD_ARGS, E_PLUGIN
from hilum.testing import plugin


class Place(msgspec.Struct):
    """A place in a file."""

    path: str
    line: Annotated[int, msgspec.Meta(ge=1)] = 1


@tool(risk="read", effect="pure")
async def find(
    call: Call,
    text: str,
    places: list[Place],
    how: Literal["exact", "fuzzy"] = "exact",
    most: int | None = None,
) -> Any:
    """Find a text.

    It looks in the places given,
    one after another.

    Args:
        text: What to find.
        places: Where to look; each with
            a path and a line.
        how: How to compare.
    """
    return {"text": text, "places": [place.path for place in places], "how": how, "most": most}


def test_schema_comes_from_signature_and_docstring():
    """Names, types, defaults, descriptions, closed, types of the tool's own under $defs, and
    nothing injected shows.
    """
    spec = find.spec
    assert spec.name == "find"
    assert spec.description == "Find a text.\n\nIt looks in the places given,\none after another."
    schema = spec.parameters
    assert set(schema["properties"]) == {"text", "places", "how", "most"}
    assert schema["required"] == ["text", "places"]
    assert schema["additionalProperties"] is False
    assert (
        schema["properties"]["places"]["description"]
        == "Where to look; each with a path and a line."
    )
    assert schema["properties"]["places"]["items"] == {"$ref": "#/$defs/Place"}
    assert schema["$defs"]["Place"]["properties"]["line"]["minimum"] == 1
    assert set(schema["properties"]["how"]["enum"]) == {"exact", "fuzzy"}
    assert schema["properties"]["how"]["default"] == "exact"
    assert schema["type"] == "object"
    assert "title" not in schema


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ('{"text": 1, "places": []}', "$.text"),
        ('{"text": "x", "places": [{"path": "a", "line": 0}]}', "$.places[0].line"),
        ('{"text": "x", "places": [], "how": "nearly"}', "$.how"),
        ('{"text": "x"}', "places"),
        ('{"text": "x", "places": [], "extra": 1}', "extra"),
        ('{"text": "x", "places"', "not valid JSON"),
        ("[1]", "JSON object"),
        ("", "text"),
        ('{"text": "\ud800"}', "not valid JSON"),
    ],
)
def test_wrong_arguments_are_told_with_their_place(arguments, place):
    """Whatever the model writes, the answer says where it is wrong."""
    with pytest.raises(ToolError) as caught:
        find.check(arguments)
    assert caught.value.code == E_BAD_ARGS
    assert place in str(caught.value)


async def test_json_inside_a_string_is_understood(bench):
    """Some models write a list as a string of JSON."""
    kit = await bench(plugin("tools", find))
    result = await kit.call("find", text="x", places='[{"path": "a.py"}]')
    assert msgspec.json.decode(result.text) == {
        "text": "x",
        "places": ["a.py"],
        "how": "exact",
        "most": None,
    }


async def test_session_agent_and_call_are_injected_by_type(bench):
    """Parameters of these types are filled by the kernel, wherever they stand."""

    class Half:
        name = "half"

        @tool(risk="read")
        def who(self, n: int, agent: Agent, session: Session, call: Call) -> str:
            """Say who."""
            return f"{self.name} {n} {agent.name} {session.id} {call.name}"

        @hookimpl
        def provide_tools(self):
            return [self.who]

    kit = await bench(plugin("p", open_session=lambda: Half()))
    assert (await kit.call("who", n=1)).text == f"half 1 main {kit.session.id} who"
    assert (
        Half()
        .who(2, kit.session.agents["main"], kit.session, type("C", (), {"name": "by hand"}))
        .startswith("half 2")
    )


async def test_tool_with_a_schema_of_its_own_takes_what_it_allows(bench):
    """Tools of other systems bring their schema; their function takes the call first."""

    def function(call, **arguments):
        return Output(
            f"{call.name} {arguments}", data={"n": 1}, code="" if arguments else "E_FAILED"
        )

    foreign = Tool(
        "mcp__x", "Do x.", function, risk="network", schema={"type": "object", "properties": {}}
    )
    kit = await bench(plugin("tools", foreign))
    result = await kit.call("mcp__x", anything=[1])
    assert (result.text, result.data, result.code) == ("mcp__x {'anything': [1]}", {"n": 1}, "")
    assert (await kit.call("mcp__x")).code == "E_FAILED"


def test_recursive_types_have_a_schema():
    """A tree refers to itself; a tool without types of its own has no $defs."""

    class Tree(msgspec.Struct):
        name: str
        parts: list["Tree"] = []

    globals()["Tree"] = Tree

    @tool
    def grow(tree: Tree) -> str:
        """Grow."""
        return tree.name

    schema = grow.spec.parameters
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Tree"}
    assert (
        grow.check('{"tree": {"name": "a", "parts": [{"name": "b"}]}}')["tree"].parts[0].name == "b"
    )
    assert "$defs" not in find_text.spec.parameters


@tool
def find_text(text: str) -> str:
    """Find."""
    return text


def test_tool_named_as_a_type_of_its_own_has_both():
    """Two things of one name are told apart in the schema."""

    @tool(name="Place")
    def put(place: Place) -> str:
        """Put."""
        return place.path

    schema = put.spec.parameters
    assert schema["required"] == ["place"]
    assert schema["$defs"][schema["properties"]["place"]["$ref"].rpartition("/")[2]][
        "required"
    ] == ["path"]


@pytest.mark.parametrize("value", [None, 3, ["a"], {"b": 1.5}])
async def test_plain_values_become_json(bench, value):
    """A tool may return plain data; nothing stands for nothing."""

    @tool(risk="read")
    def give() -> Any:
        """Give."""
        return value

    kit = await bench(plugin("tools", give))
    assert (await kit.call("give")).text == (
        "" if value is None else msgspec.json.encode(value).decode()
    )


def test_docstring_of_a_parameter_that_is_not_there_is_an_error():
    """A renamed parameter does not lose its description silently."""

    @tool
    def renamed(new: str) -> str:
        """Do.

        Args:
            old: What it was called.
        """
        return new

    with pytest.raises(PluginError, match="describes old, which the function does not take"):
        _ = renamed.spec


async def test_limit_function_that_crashes_is_the_plugins_fault(bench):
    """A timeout computed from arguments may fail; the call ends with the plugin's name."""

    @tool(risk="read", timeout=lambda arguments: arguments["missing"])
    def odd() -> str:
        """Be odd."""
        return ""

    kit = await bench(plugin("tools", odd), faults=True)
    assert (await kit.call("odd")).code == E_PLUGIN


async def test_result_of_another_call_is_withheld(bench):
    """check_result may change a result, not swap it for that of another call."""

    @tool(risk="read")
    def give() -> str:
        """Give."""
        return "secret"

    def check_result(result):
        return type(result)("other", result.name, result.parts)

    kit = await bench(plugin("tools", give, check_result=check_result))
    result = await kit.call("give")
    assert (result.code, "secret" in result.text) == (E_PLUGIN, False)
