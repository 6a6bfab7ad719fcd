"""What commands share: arguments read with errors that say what to do, and text that no terminal obeys."""

from hilum_commandline.parser import Parser
from hilum_commandline.text import neutral, say, say_json

__all__ = ["Parser", "neutral", "say", "say_json"]
