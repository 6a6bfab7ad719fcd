"""Chooses the face of a run, and shows errors that prevent a run from starting.

This module is separate from ``run``, because ``hilum run --help`` does not need it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hilum_cli.faces import Face, JsonFace, PlainFace, StreamFace, TextFace
from hilum_cli.result import failed_result
from hilum_cli.terminal import is_terminal

if TYPE_CHECKING:
    from hilum import HilumError


def show_failure(error: HilumError, output_format: str) -> None:
    """Show why a run could not start, in the requested output format."""
    face = make_face(output_format, quiet=True)
    face.failed(error)
    face.out.put(face.result(failed_result(error)))


def make_face(
    output_format: str, quiet: bool, *, raw: bool = False, include_prompt: bool = False
) -> Face:
    """Create the face for an output format.

    The choice also depends on whether standard error is a terminal that can move its cursor.

    Args:
        output_format: text, json or stream-json.
        quiet: Whether to show no progress.
        raw: Whether to write the model's text unchanged.
        include_prompt: Whether to include the texts of the prompt in stream-json output.
    """
    if output_format == "json":
        return JsonFace()
    if output_format == "stream-json":
        return StreamFace(include_prompt=include_prompt)
    face: TextFace
    if quiet:
        face = TextFace()
    # A dumb terminal, as in some editors and CI systems, cannot move its cursor.
    elif is_terminal(2) and os.environ.get("TERM", "dumb") != "dumb":
        from hilum_cli.live import LiveFace  # this module imports rich, which nothing else needs

        face = LiveFace()
    else:
        face = PlainFace()
    face.raw = raw
    return face
