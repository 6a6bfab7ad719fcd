"""Schemas of tools as providers take them: no references, one object at the top, the same bytes
each time.
"""

import random
from copy import deepcopy
from typing import Any, Literal

import msgspec
import pytest
from hilum import tool
from hilum.messages import ToolSpec
from hilum_models import create_wire
from hilum_models.schemas import simplify_schema

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def inside(**properties: Any) -> dict[str, Any]:
    """An object with these properties."""
    return {"type": "object", "properties": properties}


class Spot(msgspec.Struct):
    """A spot."""

    line: int
    how: Literal["exact", "near"] = "exact"


class Tree(msgspec.Struct):
    """A tree."""

    spot: Spot
    parts: list["Tree"] = []
    other: "Tree | None" = None


@tool(risk="read")
def grow(tree: Tree, spots: list[Spot], title: str, level: Literal[1, 2] = 1) -> str:
    """Grow.

    Args:
        tree: What to grow.
    """
    return title


def test_types_of_a_tool_stand_where_they_are_used() -> None:
    """Structs are put in place with what is said of the parameter.

    What contains itself is an object below that.
    """
    properties = simplify_schema(grow.spec.parameters)["properties"]
    assert list(properties) == ["tree", "spots", "title", "level"]
    assert properties["tree"]["description"] == "What to grow."
    assert properties["tree"]["required"] == ["spot"]
    spot = {
        "type": "object",
        "properties": {
            "line": {"type": "integer"},
            "how": {"enum": ["exact", "near"], "default": "exact", "type": "string"},
        },
        "required": ["line"],
        "description": "A spot.",
    }
    assert properties["spots"]["items"] == properties["tree"]["properties"]["spot"] == spot
    below = {"type": "object", "description": "A tree."}
    assert properties["tree"]["properties"]["parts"]["items"] == below
    assert properties["tree"]["properties"]["other"] == below
    assert properties["level"]["type"] == "integer"


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic", "gemini"])
@pytest.mark.parametrize("protocol", ["native", "text"])
def test_every_gateway_sends_plain_schemas_and_the_same_bytes(api: str, protocol: str) -> None:
    """Tools of hilum and of MCP servers alike, in each format and as text."""
    foreign = {
        "$schema": "x",
        "anyOf": [{"$ref": "#/definitions/a"}],
        "definitions": {"a": inside(b=TEXT)},
    }
    tools = [grow.spec, ToolSpec("foreign", "Do.", foreign)]
    heads = {
        create_wire(api, "p/m", tool_protocol=protocol).head((), deepcopy(tools)) for _ in range(3)
    }
    assert len(heads) == 1
    (head,) = heads
    for word in (b"$ref", b"$defs", b"definitions", b"$schema"):
        assert word not in head
    assert msgspec.json.encode(inside(b=TEXT)).decode().strip("{}") in head.decode().replace(
        "\\", ""
    )


@pytest.mark.parametrize(
    ("ref", "there"),
    [
        ("#/$defs/a", {"$defs": {"a": TEXT}}),
        ("#/definitions/a", {"definitions": {"a": TEXT}}),
        ("#/$defs/a", {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": TEXT}}),
        ("#/properties/y", {}),
        ("#/properties/z/anyOf/1", {}),
        ("#/$defs/a~1b~0c%20d", {"$defs": {"a/b~c d": TEXT}}),
    ],
)
def test_references_into_the_schema_are_followed(ref: str, there: dict[str, Any]) -> None:
    """By any pointer, and from reference to reference."""
    properties = {"x": {"$ref": ref}, "y": TEXT, "z": {"anyOf": [NUMBER, TEXT]}}
    assert simplify_schema(inside(**properties) | there) == inside(**properties | {"x": TEXT})


@pytest.mark.parametrize(
    "ref",
    [
        "#/$defs/missing",
        "#/required/9",
        "#/required/x",
        "#/type/x",
        "#anchor",
        "https://example.com/a.json",
        "b",
    ],
)
def test_other_references_allow_anything(ref: str) -> None:
    """Nothing is fetched and nothing breaks; what stands beside the reference stays."""
    schema = inside(x={"$ref": ref, "description": "An x."}) | {"required": ["x"]}
    assert simplify_schema(schema) == inside(x={"description": "An x."}) | {"required": ["x"]}


def test_what_stands_beside_a_reference_is_added() -> None:
    """Its words win, properties and required names join, and the definition itself stays as it
    is.
    """
    base = {**inside(a=TEXT, b=TEXT), "required": ["a"], "description": "A base."}
    beside = {
        "description": "Mine.",
        "default": {},
        "properties": {"b": NUMBER, "c": TEXT},
        "required": ["c", "a"],
    }
    schema = inside(x={"$ref": "#/$defs/base", **beside}, y={"$ref": "#/$defs/base"}) | {
        "$defs": {"base": base}
    }
    before = deepcopy(schema)
    joined = {
        **inside(a=TEXT, b=NUMBER, c=TEXT),
        "required": ["a", "c"],
        "description": "Mine.",
        "default": {},
    }
    assert simplify_schema(schema)["properties"] == {"x": joined, "y": base}
    assert schema == before


def test_recursion_ends_without_a_wrong_type() -> None:
    """What contains itself keeps its type below, or any type where it has several; # is the whole
    schema.
    """
    json = {
        "description": "JSON.",
        "anyOf": [TEXT, {"type": "array", "items": {"$ref": "#/$defs/json"}}],
    }
    loop = {"$ref": "#/$defs/loop"}
    schema = inside(value={"$ref": "#/$defs/json"}, again={"$ref": "#"}, loop=loop)
    properties = simplify_schema(schema | {"$defs": {"json": json, "loop": loop}})["properties"]
    assert properties["value"]["anyOf"][1] == {"type": "array", "items": {"description": "JSON."}}
    assert properties["again"]["properties"]["again"] == {"type": "object"}
    assert properties["loop"] == {}


@pytest.mark.parametrize("shape", ["doubling", "chain"])
def test_schema_that_would_unfold_without_end_stays_small(shape: str) -> None:
    """Small definitions that refer to each other twice, or a thousand deep, cost neither memory nor
    time.
    """
    count = 2 if shape == "doubling" else 1
    names = range(60 if shape == "doubling" else 1000)
    defs = {
        f"d{n}": inside(**{f"p{i}": {"$ref": f"#/$defs/d{n + 1}"} for i in range(count)})
        for n in names
    }
    result = simplify_schema(inside(x={"$ref": "#/$defs/d0"}) | {"$defs": defs})
    encoded = msgspec.json.encode(result)
    assert len(encoded) < 300_000
    assert b"$ref" not in encoded


def test_only_keywords_go_and_not_names_or_data() -> None:
    """A parameter may be called title or definitions, and a default may hold what looks like a
    reference.
    """
    data = {"title": "x", "$ref": "#/nowhere"}
    schema = inside(
        title={"title": "Title", "default": data, "const": None},
        definitions=TEXT,
        properties=inside(b=TEXT),
    )
    expected = inside(
        title={"default": data, "const": None}, definitions=TEXT, properties=inside(b=TEXT)
    )
    assert simplify_schema(schema | {"title": "Args", "$id": "x", "$comment": "y"}) == expected


def test_enums_have_a_type() -> None:
    """Where all values are of one; where they are not, none is made up, and a given one stays."""
    cases: list[tuple[list[Any], dict[str, Any]]] = [
        (["a", "b"], {"type": "string"}),
        ([1, 2], {"type": "integer"}),
        ([True], {"type": "boolean"}),
        (["a", None], {}),
        ([1, "a"], {}),
        ([], {}),
    ]
    for values, more in cases:
        assert simplify_schema(inside(x={"enum": values}))["properties"]["x"] == {
            "enum": values,
            **more,
        }
    assert simplify_schema(inside(x={"enum": ["a"], "type": ["string", "null"]}))["properties"][
        "x"
    ]["type"] == ["string", "null"]


def test_top_is_always_an_object_with_properties() -> None:
    """Also where a tool takes nothing, is a reference as a whole, or may be null."""
    assert (
        simplify_schema({})
        == simplify_schema({"type": "object"})
        == simplify_schema({"type": ["object", "null"]})
        == inside()
    )
    assert simplify_schema({"$ref": "#/$defs/a", "$defs": {"a": inside(b=TEXT)}}) == inside(b=TEXT)


def test_alternatives_at_the_top_become_one_object() -> None:
    """Providers refuse them there.

    All parameters are offered, and required is what every alternative requires.
    """
    one = inside(kind={"const": "a"}, path=TEXT) | {"required": ["kind", "path"]}
    two = inside(kind={"const": "b"}, url=TEXT) | {"required": ["url", "kind"]}
    both = {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "path": TEXT, "url": TEXT}
    for key in ("anyOf", "oneOf"):
        assert simplify_schema({key: [one, two]}) == inside(**both) | {"required": ["kind"]}
    assert set(simplify_schema({"allOf": [one, two]})["required"]) == {"kind", "path", "url"}
    own = inside(a=TEXT, b=TEXT) | {"required": ["a"], "description": "Mine."}
    assert (
        simplify_schema(
            own | {"anyOf": [{"required": ["b"]}, {"required": ["a"]}], "not": {}, "enum": [1]}
        )
        == own
    )
    nested = inside(x={"anyOf": [TEXT, NUMBER]})
    assert simplify_schema(nested) == nested


def test_what_is_no_schema_is_put_right() -> None:
    """Servers write null for nothing, and required as a mark of the parameter."""
    assert simplify_schema({"type": "object", "properties": None, "required": None}) == inside()
    assert simplify_schema(inside(x={"type": "string", "required": True, "items": None}))[
        "properties"
    ]["x"] == {
        "type": "string",
        "required": [],
    }


def test_whatever_a_server_sends_becomes_a_schema() -> None:
    """Any JSON in place of any keyword is survived."""
    keys = """type properties required items anyOf allOf oneOf not enum const $ref $defs definitions title default
    additionalProperties description""".split()
    chance = random.Random(7)

    def value(depth: int) -> Any:
        kind = chance.randrange(8 if depth else 5)
        if kind < 5:
            return (
                None,
                True,
                3,
                "object",
                chance.choice(["#", "#/$defs/a", "#/properties", "#/anyOf/0", "a"]),
            )[kind]
        if kind == 5:
            return [value(depth - 1) for _ in range(chance.randrange(4))]
        return {
            chance.choice([*keys, "a", "b"]): value(depth - 1) for _ in range(chance.randrange(6))
        }

    for _ in range(3000):
        schema = {chance.choice(keys): value(4) for _ in range(chance.randrange(8))}
        result = simplify_schema(schema)
        assert result["type"] == "object"
        assert isinstance(result["properties"], dict)
        assert not {"anyOf", "allOf", "oneOf", "$ref"} & set(result)
        assert msgspec.json.encode(result) == msgspec.json.encode(simplify_schema(schema))
