"""Serves sessions over HTTP: operations, event streams and a web page.

Importing this package is cheap, because every kernel loads it; the server is imported when it
starts.
"""

from hilum_serve.settings import ServeSettings

__all__ = ["ServeSettings"]
