"""What commands share: arguments read with errors that say what to do, and text that no terminal
obeys.
"""

from hilum_commandline.parser import Names, Parser
from hilum_commandline.text import neutral, say, say_json

__all__ = ["Names", "Parser", "neutral", "say", "say_json"]
