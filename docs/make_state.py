"""Write the tables in docs/context.md from the classes of a workspace state.

With ``--check``, only report whether the page is current.
"""

import inspect
import re
import sys
from pathlib import Path

import msgspec.inspect
from hilum_context import state

TARGET = Path(__file__).parent / "context.md"
MARK = (
    "<!-- Written by docs/make_state.py from here to the end: change the docstrings in"
    " hilum_context/state.py. -->\n"
)
PARTS = [
    state.WorkspaceState, state.OpenFile, state.Cursor, state.Selection, state.EditorDiagnostic, state.RecentEdit,
]  # fmt: skip
NAMES = {"IntType": "whole number", "FloatType": "number", "StrType": "text"}


def type_name(kind: msgspec.inspect.Type) -> str:
    """Return the type of a key in words."""
    match kind:
        case msgspec.inspect.Metadata(type=inner):
            return type_name(inner)
        case msgspec.inspect.UnionType(types=types):
            return " or ".join(
                type_name(one) for one in types if not isinstance(one, msgspec.inspect.NoneType)
            )
        case msgspec.inspect.VarTupleType(item_type=item):
            return f"list of {type_name(item)}"
        case msgspec.inspect.StructType(cls=cls):
            return f"`{cls.__name__}`"
        case msgspec.inspect.LiteralType(values=values):
            return " or ".join(f"`{value}`" for value in values)
    name = NAMES[type(kind).__name__]
    least = getattr(kind, "ge", None)
    return f"{name}, at least {least}" if least is not None else name


def told(part: type) -> dict[str, str]:
    """Return the description of each key in a class docstring."""
    text = inspect.cleandoc(part.__doc__ or "").partition("Args:\n")[2]
    return {
        name: " ".join(said.replace("``", "`").split())
        for name, said in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", text, re.MULTILINE)
    }


def table(part: type[msgspec.Struct]) -> str:
    """Return the heading, the summary and the table of one class."""
    about = told(part)
    rows = []
    for field in msgspec.inspect.type_info(part).fields:  # type: ignore[attr-defined]
        default = (
            ""
            if field.required
            else "none"
            if field.default in (None, ())
            else f"`{field.default!r}`"
        )
        shown = "required" if field.required else default.replace("'", '"')
        rows.append(
            f"| `{field.encode_name}` | {type_name(field.type)} | {shown} | {about[field.name]} |\n"
        )
    first = (part.__doc__ or "").partition("\n")[0].partition("``dict")[0].strip()
    return (
        f"### {part.__name__}\n\n{first}\n\n| key | type | default | what it is"
        f" |\n|---|---|---|---|\n{''.join(rows)}"
    )


def main() -> int:
    """Write or check the page."""
    text = TARGET.read_text()
    new = text.partition(MARK)[0] + MARK + "\n" + "\n".join(map(table, PARTS))
    if "--check" in sys.argv:
        if new != text:
            print("docs/context.md is not current; run python docs/make_state.py")
        return int(new != text)
    TARGET.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
