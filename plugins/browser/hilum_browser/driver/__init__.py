"""The browser's own process, inside the sandbox. Imports nothing from hilum, to start quickly."""
