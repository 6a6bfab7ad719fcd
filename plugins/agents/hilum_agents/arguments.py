"""Parses the arguments of tool calls for the checks of answers and permissions."""

from __future__ import annotations

import json
from typing import Any


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; empty if they are not a JSON object.

    Args:
        text: The JSON that a model wrote; empty if there are no arguments.
    """
    try:
        given = json.loads(text or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}
