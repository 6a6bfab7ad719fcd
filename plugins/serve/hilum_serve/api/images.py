"""The operation that returns an image of a session, which can never run as a page or a script."""

from __future__ import annotations

from collections.abc import Iterable

from hilum import Image, find_media_type, identify_image
from hilum.errors import E_UNKNOWN
from hilum.events import CallDone, Event, PromptQueued
from hilum_view import Card, ImageFacts, Prompt
from starlette.responses import Response

from hilum_serve.hub import HostedSession
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem

SAFE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types that a browser shows as an image and never runs. SVG files can contain scripts."""
OTHER_TYPE = "application/octet-stream"
MAX_AGE = 31_536_000  # seconds
_POLICY = "default-src 'none'; sandbox"


@operation(
    "GET",
    "/api/sessions/{session}/images/{image}",
    rights="watch",
    media=(*SAFE_TYPES, OTHER_TYPE),
)
async def get_image(call: Call[None, None]) -> Response:
    """Return the content of an image that belongs to a prompt or a result of the session."""
    hosted = call.hosted
    identity = call.path["image"]
    await hosted.catch_up()
    data = await _read_image(hosted, identity)
    # The first bytes decide, because a wrong type must not make a browser run something.
    media_type = find_media_type(data)
    headers = {
        # An id names a content, which never changes.
        "cache-control": f"private, max-age={MAX_AGE}, immutable",
        # The door adds the policy of the page and "nosniff"; a browser obeys both policies.
        "content-security-policy": _POLICY,
    }
    if media_type not in SAFE_TYPES:
        media_type = OTHER_TYPE
        headers["content-disposition"] = f'attachment; filename="image-{identity}"'
    return Response(data, headers=headers, media_type=media_type)


async def _read_image(hosted: HostedSession, identity: str) -> bytes:
    """Return the content of an image, from the event that contains it.

    Raises:
        Problem: No entry of the session has the image (404).
    """
    facts = _find_facts(hosted, identity)
    if facts is not None:
        # The view does not keep the images of prompts, and the store reads in a thread.
        for event in await hosted.session.kernel.store.read(hosted.id, facts.seq - 1, 1):
            for image in _list_images(event):
                if identify_image(image.data) == identity:
                    return image.data
    raise Problem(404, E_UNKNOWN, "There is no such image in this session.")


def _find_facts(hosted: HostedSession, identity: str) -> ImageFacts | None:
    for entry in reversed(hosted.view.entries):
        if isinstance(entry, Prompt | Card):
            for facts in entry.images:
                if facts.id == identity:
                    return facts
    return None


def _list_images(event: Event) -> Iterable[Image]:
    if isinstance(event, PromptQueued):
        return event.images
    if isinstance(event, CallDone):
        return [part for part in event.result.parts if isinstance(part, Image)]
    return ()
