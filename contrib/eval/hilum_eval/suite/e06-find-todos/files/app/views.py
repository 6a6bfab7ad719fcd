"""Views of the blog."""

from app import labels, posts


def show(post):
    """Return a page."""
    # FIXME: escape the title
    title = post["title"]
    #TODO show the author
    return f"<h1>{title}</h1><p>{labels.LABELS.get(posts.status(post).lower(), '')}</p>"
