"""Converts stored parts of a login to the SDK's models. This module imports the MCP SDK."""

from __future__ import annotations

from typing import Any, TypeVar

from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

__all__ = [
    "OAuthClientInformationFull",
    "OAuthMetadata",
    "OAuthToken",
    "ProtectedResourceMetadata",
    "parse_stored",
]

Model = TypeVar("Model", bound=BaseModel)


def parse_stored(model: type[Model], stored: Any) -> Model | None:
    """Return a stored part of a login as a model, or ``None`` if there is none.

    Invalid data counts as missing, so hilum requests it again.
    """
    if not stored:
        return None
    try:
        return model.model_validate(stored)
    except ValidationError:
        return None
