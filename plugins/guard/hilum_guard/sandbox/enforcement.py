"""A data class for the restrictions that this system enforces on child processes."""

from __future__ import annotations

import attrs


@attrs.frozen
class Enforcement:
    """The restrictions that the sandbox actually enforces.

    Args:
        by: ``bubblewrap``, ``landlock`` or ``sandbox-exec``; empty for none.
        files: Whether writes outside the workspace and reads of secrets are denied.
        protected: Whether the protected paths inside the workspace stay read-only.
        network: What blocks the network: ``namespace`` (the loopback works), ``filter`` (the
            loopback does not work), or empty if nothing blocks the network.
        processes: Whether signalling, tracing and reading other processes is prevented.
        limits: Whether the number of processes is limited.
        reasons: The differences from the full sandbox and their causes, one sentence each.
        shared: Whether a session's commands share a loopback.
    """

    by: str = ""
    files: bool = False
    protected: bool = False
    network: str = ""
    processes: bool = False
    limits: bool = False
    reasons: tuple[str, ...] = ()
    shared: bool = False

    @property
    def whole(self) -> bool:
        """Whether files, protected paths, network and processes are all restricted."""
        return bool(self.files and self.protected and self.network and self.processes)

    def covers(self, other: Enforcement) -> bool:
        """Return whether everything that another sandbox restricts is restricted here, too."""
        needed = (other.files, other.protected, bool(other.network), other.processes)
        present = (self.files, self.protected, bool(self.network), self.processes)
        return all(has for has, needs in zip(present, needed, strict=True) if needs)


FULL_SANDBOX = Enforcement(files=True, protected=True, network="namespace", processes=True)
"""What a sandbox enforces that restricts files, protected paths, network and processes."""
