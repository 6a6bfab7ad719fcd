"""Checks that arms can be compared, before hours are spent on a measurement."""

from __future__ import annotations

from importlib.util import find_spec

from hilum import UsageError
from hilum.errors import E_NOT_INSTALLED


def check_statistics() -> None:
    """Check that the library for the statistics is installed.

    Raises:
        UsageError: SciPy is not installed (``E_NOT_INSTALLED``).
    """
    if find_spec("scipy") is None:
        raise UsageError(
            "Comparing arms needs SciPy, which is not installed.",
            code=E_NOT_INSTALLED,
            hint="Install it: pip install 'hilum[eval]'.",
        )
