"""Measures agents with cases whose results are verified."""
