"""The names under which programs that work as agents are models, and under which they ask.

The module is small, because every start of hilum imports it.
"""

MODEL_PROVIDER = "guest"
"""The provider whose models are programs; the plugin ``hilum-acp`` provides it."""

GUEST_TOOLS = {
    "guest_run": ("run_terminal_cmd",),
    "guest_terminal": ("run_terminal_cmd",),
    "guest_edit": ("write_file", "edit_file", "multi_edit", "delete_file"),
    "guest_read": ("read_file",),
    "guest_fetch": ("web_fetch",),
}
"""The tools through which programs ask, each with the tools that have the same effect."""
