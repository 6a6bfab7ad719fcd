"""Support for a trio program on a separate thread of an asyncio or synchronous program.

The host calls the trio program through asyncio or synchronous functions.

``hilum.hosts.aio`` is for asyncio hosts, ``hilum.hosts.blocking`` for synchronous hosts, and both
are based on ``hilum.hosts.portal``.
"""
