"""The colors of the terminal."""

from __future__ import annotations

from typing import get_args

from hilum_terminal.styles import PLAIN, RESET, Depth, Style, Theme, find_theme

STYLES: tuple[Style, ...] = get_args(Style)
DEPTHS: tuple[Depth, ...] = get_args(Depth)


def test_the_theme_follows_the_environment() -> None:
    cases: list[tuple[dict[str, str], Depth]] = [
        ({}, "none"),
        ({"TERM": "dumb"}, "none"),
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "linux"}, "16"),
        ({"TERM": "vt100-m"}, "none"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "screen", "COLORTERM": "yes"}, "256"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, "truecolor"),
        ({"TERM": "xterm-direct"}, "truecolor"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),
    ]
    assert [(environ, find_theme(environ).depth) for environ, _ in cases] == cases


def test_the_background() -> None:
    cases = [("", "", True), ("15;0", "", True), ("0;15", "", False), ("0;default;15", "", False)]
    cases += [("x", "", True), ("15;0", "light", False), ("0;15", "dark", True)]
    wrong = [
        case
        for case in cases
        if find_theme({"COLORFGBG": case[0]}, background=case[1]).dark != case[2]
    ]
    assert not wrong


def test_painted_text_ends_without_colors() -> None:
    for depth in DEPTHS:
        for dark in (True, False):
            theme = Theme(depth, dark)
            for style in STYLES:
                painted = theme.paint("text", style)
                code = theme.code(style)
                assert painted == (f"\x1b[{code}m" + "text" + RESET if code else "text")
                assert theme.paint("", style) == ""


def test_a_style_continues_after_an_inner_one() -> None:
    theme = Theme("16")
    painted = theme.paint(f"a {theme.paint('b', 'good')} c", "dim")
    assert painted == "\x1b[2ma \x1b[32mb\x1b[0m\x1b[2m c\x1b[0m"


def test_plain_text_has_no_sequences() -> None:
    assert [style for style in STYLES if PLAIN.paint("text", style) != "text"] == []


def test_colors_are_those_that_the_terminal_has() -> None:
    for style in STYLES:
        for dark in (True, False):
            assert "38;" not in Theme("16", dark).code(style)
            assert "38;" not in Theme("none", dark).code(style)
            none = {int(part) for part in Theme("none", dark).code(style).split(";") if part}
            assert none <= {1, 2, 3, 4, 7}


def luminance(color: int) -> float:
    """Return the relative luminance of one of the colors 16 to 255 (WCAG 2)."""
    if color >= 232:
        channels = [8 + 10 * (color - 232)] * 3
    else:
        levels = [0, 95, 135, 175, 215, 255]
        index = color - 16
        channels = [levels[index // 36], levels[index // 6 % 6], levels[index % 6]]
    linear = [
        value / 255 / 12.92 if value / 255 <= 0.04045 else ((value / 255 + 0.055) / 1.055) ** 2.4
        for value in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_colors_are_readable_on_their_background() -> None:
    """Text needs a contrast of 4.5 (WCAG AA)."""
    wrong = []
    for dark in (True, False):
        # Terminals with a dark background have black or dark gray, the others white or cream.
        backgrounds = [luminance(16), luminance(235)] if dark else [luminance(231), luminance(230)]
        for style in STYLES:
            parts = Theme("256", dark).code(style).split(";")
            if "38" not in parts:
                continue
            color = luminance(int(parts[parts.index("38") + 2]))
            behind = backgrounds
            if "48" in parts:
                behind = [luminance(int(parts[parts.index("48") + 2]))]
            worst = min(contrast(color, background) for background in behind)
            if worst < 4.5:
                wrong.append((dark, style, round(worst, 2)))
    assert not wrong
