"""The command line: ``hilum run``, ``demo``, ``sessions`` and ``config``.

The commands are entry points of the group ``hilum.commands``; each stands in the module of its
name. As a plugin this package has no hooks. Importing it costs nothing: a kernel in another program
loads it, too.
"""
