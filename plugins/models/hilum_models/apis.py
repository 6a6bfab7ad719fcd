"""The description of a wire format, as provided by the format's module."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from hilum.models import Wire

from hilum_models.answer_builder import Reader
from hilum_models.encode import Target
from hilum_models.failures import Endpoint

CreateReader = Callable[[str, bytes, Endpoint], Reader]
"""Takes a model's name, a request body and an endpoint, and creates a reader for the response."""


def bearer_header(key: str) -> Mapping[str, str]:
    """Return the header that carries a key in most formats."""
    return {"authorization": f"Bearer {key}"}


class Api(msgspec.Struct, frozen=True):
    """A wire format.

    Attributes:
        path: Path below the base URL; ``{model}`` is replaced with the model's name.
        create_wire: Function that creates the wire for a target.
        create_reader: Function that creates a reader for a response.
        models_path: Path of the list of models below the base URL.
        key_headers: Function that returns the headers that carry a key.
        headers: Headers of every request.
    """

    path: str
    create_wire: Callable[[Target], Wire]
    create_reader: CreateReader
    models_path: str = "/models"
    key_headers: Callable[[str], Mapping[str, str]] = bearer_header
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
