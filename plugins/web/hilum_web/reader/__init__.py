"""Makes pages readable in a separate process. Imports nothing from hilum, to start quickly."""
