"""Makes pages readable in a separate process.

The package imports nothing from hilum, so that the process starts quickly.
"""
