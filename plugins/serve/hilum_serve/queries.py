"""Reads the queries of addresses."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from hilum.errors import E_BAD_ARGS
from starlette.datastructures import QueryParams
from starlette.types import Scope

from hilum_serve.problems import Problem

T = TypeVar("T")


def read_query(scope: Scope, kind: type[T], hint: str = "") -> T:
    """Return the query of a request, converted to a type.

    Args:
        scope: The request.
        kind: The type.
        hint: What the values must be.

    Raises:
        Problem: A name is unknown or repeated, or a value has the wrong form (400).
    """
    pairs = QueryParams(scope["query_string"]).multi_items()
    values = dict(pairs)
    if len(values) != len(pairs):
        raise Problem(400, E_BAD_ARGS, "A name occurs twice in the query.")
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, E_BAD_ARGS, f"The query has a mistake: {error}.", hint) from None
