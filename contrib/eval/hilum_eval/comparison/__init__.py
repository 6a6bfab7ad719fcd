"""Compares arms on paired attempts, and says whether a difference is real."""
