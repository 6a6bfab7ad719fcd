"""The command ``hilum serve``."""

from __future__ import annotations

from collections.abc import Sequence

from hilum import UsageError


def main(argv: Sequence[str]) -> int:
    """Serve sessions in a browser and over HTTP."""
    raise UsageError("hilum serve is not finished yet.")
