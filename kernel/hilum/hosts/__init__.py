"""A trio program inside an asyncio or a synchronous one, on a separate thread.

The host calls it through functions of the host's own kind.

``hilum.hosts.aio`` is for asyncio hosts, ``hilum.hosts.blocking`` for synchronous ones, and
``hilum.hosts.portal`` is the basis of both.
"""
