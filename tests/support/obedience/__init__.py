"""Sixty rules, and composed ways round them: what the benchmark and the tests of obedience share."""
