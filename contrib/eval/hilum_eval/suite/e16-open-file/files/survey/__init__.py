"""Evaluates surveys."""
