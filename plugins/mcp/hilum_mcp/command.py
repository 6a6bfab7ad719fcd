"""``hilum mcp``: its actions, each loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from hilum import UsageError
from hilum.errors import E_BAD_ARGS

USAGE = """\
Usage: hilum mcp ACTION

  serve   offer hilum's tools, agents and sessions to other clients

hilum mcp ACTION --help tells more."""


def main(argv: Sequence[str]) -> int:
    """Run ``hilum mcp``; gives its exit code.

    Raises:
        HilumError: There is no such action, or it failed.
    """
    from hilum_mcp.serving import serve

    if argv[:1] == ["serve"]:
        return serve(argv[1:])
    if not argv or argv[0] in ("--help", "-h"):
        print(USAGE)
        return 0 if argv else 2
    raise UsageError(f"hilum mcp has no action {argv[0]!r}.", code=E_BAD_ARGS, hint="hilum mcp --help lists them.")
