"""Runs many tasks, each in its own process and workspace: the command ``hilum batch``.

The tasks run on this machine, or on the workers of a Dask cluster.
"""
