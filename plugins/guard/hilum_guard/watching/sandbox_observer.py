"""Define the interface for reports from a sandbox and its workspace watcher."""

from __future__ import annotations


class SandboxObserver:
    """A receiver of a sandbox's reports; this base class ignores them. Threads call its methods."""

    def report_undone(self, sentences: list[str]) -> None:
        """Report what was made inert, in one sentence per entry."""

    def report_replaced(self, paths: list[str]) -> None:
        """Report protected paths that running commands can write to again."""

    def report_failure(self, error: Exception) -> None:
        """Report that the workspace could not be checked."""

    def report_recovered(self, sentences: list[str]) -> None:
        """Report what a killed session's commands left, in one sentence per entry."""

    def report_unmarked(self, reason: str) -> None:
        """Report why hilum cannot record that commands are running."""

    def report_truncated(self) -> None:
        """Report that the workspace has more folders than are watched."""
