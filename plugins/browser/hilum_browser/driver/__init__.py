"""The browser's own process, inside the sandbox.

The package imports nothing from hilum, so that the process starts quickly.
"""
