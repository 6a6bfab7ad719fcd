"""Write the tables in docs/settings.md from the classes that declare settings.

With ``--check``, only report whether the page is current.
"""

import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import msgspec
from hilum.settings import Info, KernelSettings, members, sections_of

DOCS = Path(__file__).parent
TARGET = DOCS / "settings.md"
MARK = (
    "<!-- Written by docs/make_settings.py from here to the end: change the help texts in the code."
    " -->\n"
)
NAMES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "string",
    Any: "anything",
}
PROJECT = {
    True: "yes",
    False: "no",
    "user": "ignored",
    "lower": "only lower",
    "higher": "only true",
}
# A package in the folder `contrib` whose settings are not hilum's.
TEMPLATE = "template"
HEAD = "| name | type | default | what it is | project | environment |\n|---|---|---|---|---|---|\n"


def sections() -> Iterator[tuple[str, type]]:
    """Yield distribution names and section classes: the kernel's, then the plugins' by name."""
    yield "hilum", KernelSettings
    projects = [
        *DOCS.parent.glob("plugins/*/pyproject.toml"),
        *DOCS.parent.glob("contrib/*/pyproject.toml"),
    ]
    for project in sorted(projects, key=lambda path: path.parent.name):
        if project.parent.name == TEMPLATE:
            continue
        about = tomllib.loads(project.read_text())["project"]
        for target in about.get("entry-points", {}).get("hilum", {}).values():
            for section in sections_of(import_module(target)):
                yield about["name"], section


def type_name(kind: Any) -> str:
    """Return the type of a setting in words."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(f"`{choice}`" if choice else "empty" for choice in inside)
    if origin is list:
        return f"list of {type_name(inside[0])}s"
    if origin is dict:
        return (
            "table"
            if inside[1] in (str, Any) or attrs.has(inside[1])
            else f"table of {type_name(inside[1])}s"
        )
    if origin in (typing.Union, types.UnionType):
        return " or ".join(type_name(one) for one in inside if one is not types.NoneType)
    return NAMES.get(kind, "table")


def row(name: str, key: str, kind: Any, info: Info, default: Any, variable: str) -> str:
    """Return one row of a table."""
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = default.factory()
    shown = (
        "required"
        if default is attrs.NOTHING
        else "not set"
        if default is None
        else msgspec.json.encode(default).decode()
    )
    limits = info.describe_limits()
    project = "no" if info.secret else PROJECT[info.project]
    help = info.help + (" Secret: never shown." if info.secret else "")
    cells = [
        f"`{key}`",
        f"{type_name(kind)}, {limits}" if limits else type_name(kind),
        shown if shown in ("required", "not set") else f"`{shown}`",
        help,
        project,
    ]
    return "| " + " | ".join([*cells, f"`{variable}`" if variable else ""]).strip() + " |\n"


def table(path: str, section: Any, above: Info, *, variables: bool = True) -> Iterator[str]:
    """Yield the table of a section, then the tables of its nested sections."""
    fields = {field.name: field for field in attrs.fields(attrs.resolve_types(section))}
    rows, nested = [], []
    for name, (kind, info) in (members(section, (), above) or {}).items():
        inner = next((k for k in (kind, *typing.get_args(kind)) if attrs.has(k)), None)
        key = f"{path}.{name}".strip(".")
        variable = "HILUM_" + re.sub(r"[.-]", "_", key).upper() if variables else ""
        if inner is None or typing.get_origin(kind) is dict:
            rows.append(row(name, key, kind, info, fields[name].default, variable))
        if inner is not None:
            many = typing.get_origin(kind) is dict
            nested.append((f"{key}.NAME" if many else key, inner, info, variables and not many))
    if rows:
        yield HEAD + "".join(rows)
    for inner_path, inner, info, more in nested:
        intro = (inner.__doc__ or "").strip().split("\n")[0]
        yield f"\n`[{inner_path}]` {intro}\n\n"
        yield from table(inner_path, inner, info, variables=more)


def reference() -> str:
    """Return all text after the mark."""
    parts = []
    for distribution, section in sections():
        name = section.__section__  # type: ignore[attr-defined]
        title = f"`[{name}]`" if name else "The kernel"
        intro = (
            (section.__doc__ or "")
            .strip()
            .split("\n\n")[0]
            .replace("\n    ", " ")
            .replace("``", "`")
        )
        parts.append(
            f"\n### {title}\n\nSettings of `{distribution}`. {intro}\n\n"
            + "".join(table(name, section, Info()))
        )
    return "".join(parts)


def main() -> int:
    """Write or check the page."""
    old = TARGET.read_text()
    text = old.partition(MARK)[0] + MARK + reference()
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    elif old != text:
        print("docs/settings.md is not current: run python docs/make_settings.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
