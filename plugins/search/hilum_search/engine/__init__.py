"""The search itself, with nothing but the standard library: what the worker process runs, and what
tools share with it.
"""
