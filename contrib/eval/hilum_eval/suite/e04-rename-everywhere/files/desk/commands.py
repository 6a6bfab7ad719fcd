"""The command line."""

import sys

from desk.plugins import load_source


def show_rate(arguments=None):
    """Print the rate between two currencies."""
    source, target = arguments or sys.argv[1:3]
    fetch = load_source()
    print(f"1 {source} = {fetch(source, target)} {target}")
