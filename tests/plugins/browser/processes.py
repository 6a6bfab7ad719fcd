"""Which processes belong to the browsers of a test."""

import os
from pathlib import Path


class Processes:
    """Those that have a mark in their environment, and what descends from them.

    Also after their parents are gone.

    Args:
        mark: The mark.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._seen: dict[tuple[int, str], str] = {}

    def __call__(self) -> dict[int, str]:
        """Give the command lines of those that run, by number."""
        parents, marked = {}, set()
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            try:
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                command = (
                    Path(f"/proc/{pid}/cmdline")
                    .read_bytes()
                    .replace(b"\0", b" ")
                    .decode(errors="replace")
                )
                if stat[0] != "Z":
                    parents[pid] = (int(stat[1]), stat[19], command)
                    if (
                        self._mark in Path(f"/proc/{pid}/environ").read_bytes()
                        and "hilum_browser" in command
                    ):
                        marked.add(pid)
            except OSError:
                continue
        for pid, (_, began, command) in parents.items():
            above = pid
            while above in parents and above not in marked:
                above = parents[above][0]
            if above in marked:
                self._seen[pid, began] = command
        alive = {(pid, began) for pid, (_, began, _) in parents.items()}
        return {key[0]: command for key, command in self._seen.items() if key in alive}

    def one(self, mark: str) -> int:
        """Give the last one with some words in its command line, which is no helper of Chromium."""
        return [
            pid for pid, command in self().items() if mark in command and "--type" not in command
        ][-1]
