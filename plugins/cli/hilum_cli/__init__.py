"""The command line: the commands ``hilum run``, ``demo``, ``sessions`` and ``config``.

The commands are entry points in the group ``hilum.commands``; each is in the module with its name.
As a plugin, this package has no hooks. Importing this package is cheap, because a kernel in another
program also loads it.
"""
