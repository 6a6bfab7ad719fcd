"""Services that one plugin may provide to others, described as protocols.

A plugin whose session instance has these methods provides the service. Other plugins reach it with
``session.half(ReadingPolicy)``, and work without it where no plugin provides it. Neither needs the
other's package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable


@runtime_checkable
class ReadingPolicy(Protocol):
    """Which files a session may not read without approval. The guard provides it."""

    def withheld(self, base: str) -> Callable[[str], bool]:
        """Return a function that tells whether a search leaves a file out.

        Args:
            base: The path that the search names, relative to the workspace. The call that names it
                was judged already.
        """
        ...

    def denied_to_commands(self) -> tuple[str, ...]:
        """Return the existing paths that rules keep from being read and the sandbox hides.

        Blocks.
        """
        ...

    def reveal(self, argv: Sequence[str], paths: Iterable[str]) -> AbstractContextManager[None]:
        """Let one command see hidden files while the block lasts.

        Args:
            argv: Program and arguments, as they are given to ``session.processes`` in the block.
            paths: The files, resolved.
        """
        ...
