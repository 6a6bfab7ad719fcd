"""The interactive terminal: ``hilum`` without a command, or ``hilum chat``.

As a plugin, this package has settings and no hooks. Importing this package is cheap, because a
kernel in another program also loads it.
"""

from hilum_terminal.settings import TerminalSettings

__all__ = ["TerminalSettings"]
