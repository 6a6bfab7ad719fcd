"""A trio program inside an asyncio or a plain one: on a thread of its own, shown to its host in the
host's own kind.

``hilum_portal.aio`` is for asyncio hosts, ``hilum_portal.blocking`` for plain ones, and
``hilum_portal.portal`` is what both stand on.
"""
