"""Write docs/hooks.md from the hook specifications.

With ``--check``, only report whether the page is current.
"""

import inspect
import sys
from pathlib import Path

from hilum import hookspecs

TARGET = Path(__file__).with_name("hooks.md")
HEAD = """# Hooks

<!-- Written by docs/make_reference.py from kernel/hilum/hookspecs.py: change it there. -->

"""


def reference() -> str:
    """Return the whole page."""
    intro = inspect.getdoc(hookspecs) or ""
    parts = [HEAD, intro.split("\n", 1)[1].strip().replace("``", "`"), "\n"]
    for name, spec in hookspecs.HOOKS.items():
        function = getattr(hookspecs, name)
        signature = str(inspect.signature(function)).replace("'", "")
        kind = (
            "async def"
            if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            else "def"
        )
        doc = (inspect.getdoc(function) or "").replace("``", "`")
        parts.append(
            f"\n## `{name}`\n\n```python\n{kind} {name}{signature}\n```\n\n{doc}\n\nShape:"
            f" {spec.shape} · deadline: {spec.deadline:g} s · on failure: {spec.on_failure}\n"
        )
    return "".join(parts)


def main() -> int:
    """Write or check the page."""
    text = reference()
    if "--check" in sys.argv:
        if TARGET.exists() and TARGET.read_text() == text:
            return 0
        print("docs/hooks.md is not current: run python docs/make_reference.py")
        return 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
