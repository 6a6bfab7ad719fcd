"""Write docs/api.md from the public interface of the kernel.

With ``--check``, only report whether the page is current.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import hilum
import msgspec

TARGET = Path(__file__).with_name("api.md")
HEAD = """# Public interface

<!-- Written by docs/make_api.py from the docstrings of kernel/hilum: change them there. -->

The names on this page are public: those that `hilum` exports, and those of the kernel's public
modules. The [hooks](hooks.md), the [settings](settings.md), the [output of `hilum run`](output.md),
the [error codes](errors.md) and the events of `hilum.events` are public as well. Every other module,
and every name that begins with an underscore, may change in any release.

## Versions and deprecation

hilum follows [semantic versioning](https://semver.org).

- **Before 1.0**, a minor release (0.1 to 0.2) may change or remove public names. A patch release
  (0.1.0 to 0.1.1) only corrects mistakes. The [changelog](../CHANGELOG.md) lists each such change
  under **Breaking**, with the old and the new name. A plugin requires `hilum-core>=0.1,<0.2`, so that
  it is never installed with a kernel that it was not written for.
- **From 1.0 on**, only a major release changes or removes public names. A name is deprecated first:
  for at least two minor releases and six months it works as before and raises a `DeprecationWarning`
  that names its replacement. The changelog lists it under **Deprecated**.
- These are not breaking changes: a new name, a new optional parameter, a new kind of event, and a new
  field of an event that has a default.
- A release opens every session that an older release of the same major version wrote.

"""


def summary(thing: object) -> str:
    """Return the first sentence of a docstring, as Markdown."""
    text = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(text.replace("``", "`").split())


def members(kind: type) -> Iterator[str]:
    """Yield a line for each public method and property that a class defines itself."""
    for name, value in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"  - `{name}`: {summary(value)}\n"
        elif isinstance(value, FunctionType | classmethod | staticmethod):
            function = getattr(value, "__func__", value)
            word = "async " if inspect.iscoroutinefunction(function) else ""
            yield f"  - `{word}{name}{parameter_names(function)}`: {summary(value)}\n"


def parameter_names(function: Callable[..., object]) -> str:
    """Return the names of the parameters of a function or class."""
    names = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        if parameter.kind is parameter.VAR_POSITIONAL:
            name = "*" + name
        elif parameter.kind is parameter.VAR_KEYWORD:
            name = "**" + name
        names.append(name)
    return f"({', '.join(names)})"


def entry(name: str, value: object) -> str:
    """Return the lines about one public name."""
    if isinstance(value, type):
        word = "exception " if issubclass(value, BaseException) else "class "
        return f"- **`{word}{name}{fields(value)}`** {summary(value)}\n" + "".join(members(value))
    if callable(value) and isinstance(inspect.unwrap(value), FunctionType):
        function = inspect.unwrap(value)
        word = "async " if inspect.iscoroutinefunction(function) else ""
        return f"- **`{word}{name}{parameter_names(function)}`** {summary(value)}\n"
    if isinstance(value, str | int | float | tuple):
        return f"- **`{name}`** = `{value!r}`\n"
    return f"- **`{name}`**\n"


def fields(kind: type) -> str:
    """Return the parameters of a class; empty if it has none or a function creates it."""
    if "Made by" in (kind.__doc__ or "") or getattr(kind, "_is_protocol", False):
        return ""
    if issubclass(kind, msgspec.Struct):  # its signature evaluates types that are not imported
        own = [name for name in kind.__struct_fields__ if not name.startswith("_")]
        return f"({', '.join(own)})" if own else ""
    try:
        names = parameter_names(kind)
    except ValueError:  # written in C
        return ""
    return "" if names in ("()", "(*args, **kwargs)") else names


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module: its ``__all__``, or else the names it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(name for name in listed if not name.startswith("_"))
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    )


def reference() -> str:
    """Return the whole page."""
    parts = [HEAD, "## `hilum`\n\n"]
    modules = set(hilum._MODULES)
    for name in hilum.__all__:
        if name not in modules and not name.startswith("_"):
            parts.append(entry(name, getattr(hilum, name)))
    for name in sorted(modules):
        module = import_module(f"hilum.{name}")
        parts.append(f"\n## `hilum.{name}`\n\n{summary(module)}\n\n")
        parts += [entry(each, getattr(module, each)) for each in public_names(module)]
    return "".join(parts)


def main() -> int:
    """Write or check the page."""
    text = reference()
    if "--check" in sys.argv:
        if TARGET.exists() and TARGET.read_text() == text:
            return 0
        print("docs/api.md is not current: run python docs/make_api.py")
        return 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
