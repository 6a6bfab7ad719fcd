"""A set of many paths in little memory.

A ``frozenset`` of the 20,000 paths that a repository tracks takes 4 MB for as long as hilum runs; this
set takes 1 MB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set


class NameSet(Set[str]):
    """An immutable set of strings, which are kept as bytes in one block, in order.

    A lookup compares the logarithm of the number of strings.

    Args:
        names: The strings.
    """

    __slots__ = ("_names",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        # A file name that is not valid UTF-8 contains surrogates.
        self._names = _Block(sorted({_encode(name) for name in names}))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        encoded = _encode(name)
        at = bisect_left(self._names, encoded)
        return at < len(self._names) and self._names[at] == encoded

    def __iter__(self) -> Iterator[str]:
        return (each.decode("utf-8", "surrogatepass") for each in self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Block(Sequence[bytes]):
    """Some byte strings, one after the other in one block."""

    __slots__ = ("_data", "_ends")

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._data = b"".join(parts)
        self._ends = array("Q", [0])
        end = 0
        for part in parts:
            end += len(part)
            self._ends.append(end)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, at: int) -> bytes:  # type: ignore[override]
        if not 0 <= at < len(self):
            raise IndexError(at)
        return self._data[self._ends[at] : self._ends[at + 1]]


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
