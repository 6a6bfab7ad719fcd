"""The command line: ``hilum run``, ``demo``, ``sessions`` and ``config``.

The commands are entry points of the group ``hilum.commands``; each is in the module with its name.
As a plugin, this package has no hooks. Importing it is cheap, because a kernel in another program
also loads it.
"""
