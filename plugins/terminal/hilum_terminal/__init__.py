"""The interactive terminal, which ``hilum chat`` and ``hilum`` without a command start.

As a plugin, this package has settings and no hooks. Importing this package is cheap, because a
kernel in another program also loads it.
"""

from hilum_terminal.settings import TerminalSettings

__all__ = ["TerminalSettings"]
