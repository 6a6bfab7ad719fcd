"""The arguments of tool calls, as the checks of answers and permissions read them."""

from __future__ import annotations

import json
from typing import Any


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; empty if they are not a JSON object.

    Args:
        text: JSON as a model wrote it; empty for no arguments.
    """
    try:
        given = json.loads(text or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}
