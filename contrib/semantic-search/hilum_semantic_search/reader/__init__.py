"""Reads files and divides them into chunks in a separate process.

The package imports nothing from hilum, so that the process starts quickly.
"""
