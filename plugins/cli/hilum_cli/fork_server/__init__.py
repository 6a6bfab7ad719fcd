"""``hilum fork-server``: a resident process that forks a new process for each start of hilum.

The other side is ``hilum.fork_client``.
"""
