"""The definitions that hilum and the driver share."""

from __future__ import annotations

from typing import Any

import msgspec

# The arguments of the tool. For an upload, the arguments also contain the content and name of the
# file.
Arguments = dict[str, Any]
# A message from hilum, with "id", "agent", "action" and "arguments".
Command = dict[str, Any]
# The answer to an action, or an error, which contains a "code".
Answer = dict[str, Any]

# Actions that run concurrently with those of other agents, and leave the foreground to them.
WAITING_ACTIONS = ("wait", "wait_idle")


class Config(msgspec.Struct):
    """The configuration of a browser.

    Args:
        executable: The path of Chromium.
        width: The width of the viewport in pixels.
        height: The height of the viewport in pixels.
        sandbox: Whether to use Chromium's own sandbox: always (``on``), if it works (``auto``), or
            never (``off``).
        any_certificate: Whether invalid TLS certificates are accepted.
        timeout: The number of seconds to wait for an element.
        page_timeout: The maximum number of seconds until a page begins to load.
        max_text: The maximum number of characters in a page's text.
        max_download: The maximum size of a download in bytes.
    """

    executable: str
    width: int
    height: int
    sandbox: str
    any_certificate: bool
    timeout: float
    page_timeout: float
    max_text: int
    max_download: int
