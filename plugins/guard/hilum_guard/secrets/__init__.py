"""Recognise secrets by path, name and shape, and redact them."""
