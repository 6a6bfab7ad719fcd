"""Write docs/output.schema.json and the tables in docs/output.md.

Both are generated from the classes in ``hilum_cli.output``.

With ``--check``, only report whether both files are current.
"""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
from hilum_cli import output

PAGE = Path(__file__).parent / "output.md"
SCHEMA = Path(__file__).parent / "output.schema.json"
MARK = (
    "<!-- Written by docs/make_output.py from here to the end: change"
    " plugins/cli/hilum_cli/output.py. -->\n"
)
PARTS: tuple[type[msgspec.Struct], ...] = (
    output.Tokens,
    output.ToolCallData,
    output.CallSummary,
    output.AgentSummary,
    output.FaultSummary,
    output.InterruptedRun,
    output.ServiceSummary,
    output.ContextData,
    output.Layer,
    output.ToolData,
    output.AgentAction,
)


def descriptions(kind: type) -> dict[str, str]:
    """Return the descriptions of the fields in the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(base.__dict__.get("__doc__") or "").partition("Attributes:\n")[2]
        fields = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", text, re.MULTILINE)
        found |= {name: " ".join(words.replace("``", "`").split()) for name, words in fields}
    return found


def summary(kind: type) -> str:
    """Return the docstring of a class on one line, without its fields."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:")[0]
    return " ".join(text.replace("``", "`").split())


def make_schema() -> str:
    """Return the JSON Schema of an output line."""
    described = (*output.LINES, output.AgentResult)
    schemas, components = msgspec.json.schema_components(described, ref_template="#/$defs/{name}")
    kinds = {kind.__name__: kind for kind in (*described, *PARTS)}
    for name, definition in components.items():
        about = descriptions(kinds[name])
        definition["description"] = summary(kinds[name])
        # Every field is always written, even if the class has a default for it.
        definition["required"] = list(definition["properties"])
        for field, schema in definition["properties"].items():
            schema.pop("default", None)
            if field in about and "$ref" not in schema:
                schema["description"] = about[field]
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": (
            "A line that hilum run --output-format stream-json writes; json writes only the last"
            " line"
        ),
        # An agent's result is not a line of its own: only the definitions describe it.
        "oneOf": [*schemas][: len(output.LINES)],
        "$defs": components,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def type_words(schema: dict[str, Any]) -> str:
    """Return the type of a field in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(type_words(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        words = type_words(schema["items"])
        return f"list of {words}s" if words == "string" else f"list of {words}"
    names = {
        "string": "string",
        "number": "number",
        "integer": "whole number",
        "boolean": "true or false",
    }
    return names.get(schema.get("type", ""), schema.get("type", "anything"))


def table(
    kind: type[msgspec.Struct], definition: dict[str, Any], without: frozenset[str] = frozenset()
) -> str:
    """Return the fields of a class as a table."""
    about = descriptions(kind)
    rows = []
    for field, schema in definition["properties"].items():
        if field not in without:
            words = type_words(schema).replace("|", "\\|")
            rows.append(f"| `{field}` | {words} | {about[field]} |\n")
    if not rows:
        return ""
    return "| field | type | what it is |\n|---|---|---|\n" + "".join(rows)


def make_page(schema: dict[str, Any]) -> str:
    """Return the reference of all lines and the objects in them."""
    definitions = schema["$defs"]
    common = frozenset(output.Line.__struct_fields__) | {"type"}
    base = definitions[output.StateChangedLine.__name__]
    shared = {
        "properties": {name: base["properties"][name] for name in output.Line.__struct_fields__}
    }
    parts = [f"## Fields of every line\n\n{summary(output.Line)}\n\n{table(output.Line, shared)}"]
    parts.append("## Lines\n")
    for kind in (
        output.ResultLine,
        *(line for line in output.LINES if line is not output.ResultLine),
    ):
        definition = definitions[kind.__name__]
        tag = definition["properties"]["type"]["enum"][0]
        parts.append(f"### {tag}\n\n{summary(kind)}\n\n{table(kind, definition, common)}")
    result = output.AgentResult
    parts.append(
        "## The result of an"
        f" agent\n\n{summary(result)}\n\n{table(result, definitions[result.__name__])}"
    )
    parts.append("## Objects in lines\n")
    for part in PARTS:
        parts.append(
            f"### {part.__name__}\n\n{summary(part)}\n\n{table(part, definitions[part.__name__])}"
        )
    return "\n".join(parts)


def main() -> int:
    """Write or check both files."""
    schema = make_schema()
    page = PAGE.read_text()
    new = page.partition(MARK)[0] + MARK + "\n" + make_page(json.loads(schema))
    current = page == new and SCHEMA.exists() and SCHEMA.read_text() == schema
    if "--check" in sys.argv:
        if not current:
            print(
                "docs/output.md or docs/output.schema.json is not current; run python"
                " docs/make_output.py"
            )
        return int(not current)
    PAGE.write_text(new)
    SCHEMA.write_text(schema)
    return 0


if __name__ == "__main__":
    sys.exit(main())
