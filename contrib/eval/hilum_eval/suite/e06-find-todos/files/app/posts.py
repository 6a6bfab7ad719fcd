"""Posts of the blog."""

import re

# TODO: load the words from a file
STOP_WORDS = {"a", "the", "to do"}


def slug(title):
    """Return the part of a URL for a title."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    return "-".join(word for word in words if word not in STOP_WORDS)  # TODO(mira): transliterate


def status(post):
    """Return the status that the page shows."""
    if not post.get("text"):
        return "TODO"
    return "draft" if post.get("draft") else "published"
