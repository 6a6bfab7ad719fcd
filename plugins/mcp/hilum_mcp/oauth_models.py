"""Converts stored parts of a log-in to the SDK's models. The module imports the SDK."""

from __future__ import annotations

from typing import Any, TypeVar

from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


def parse_tokens(stored: Any) -> OAuthToken | None:
    """Return the stored tokens, or ``None`` if there are none."""
    return _parse(OAuthToken, stored)


def parse_client(stored: Any) -> OAuthClientInformationFull | None:
    """Return the stored registration, or ``None`` if there is none."""
    return _parse(OAuthClientInformationFull, stored)


def parse_server_metadata(stored: Any) -> OAuthMetadata | None:
    """Return the stored metadata of an authorization server, or ``None`` if there is none."""
    return _parse(OAuthMetadata, stored)


def parse_resource_metadata(stored: Any) -> ProtectedResourceMetadata | None:
    """Return the stored metadata of a protected resource, or ``None`` if there is none."""
    return _parse(ProtectedResourceMetadata, stored)


def _parse(model: type[Model], stored: Any) -> Model | None:
    """Return a model. Invalid data counts as missing and is requested again."""
    if not stored:
        return None
    try:
        return model.model_validate(stored)
    except ValidationError:
        return None
