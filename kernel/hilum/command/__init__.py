"""Helpers that all commands share.

These helpers parse arguments, with errors that explain what to do, and print text so that a
terminal does not interpret it.
"""

from hilum.command.checks import check_folder, check_text
from hilum.command.parser import Names, Parser, insert_list
from hilum.command.questions import ask_line, discard_typed
from hilum.command.session_options import add_session_options
from hilum.command.text import (
    escape_line,
    escape_terminal,
    format_json,
    make_code_block,
    output_error,
    say,
    say_json,
)

__all__ = [
    "Names",
    "Parser",
    "add_session_options",
    "ask_line",
    "check_folder",
    "check_text",
    "discard_typed",
    "escape_line",
    "escape_terminal",
    "format_json",
    "insert_list",
    "make_code_block",
    "output_error",
    "say",
    "say_json",
]
