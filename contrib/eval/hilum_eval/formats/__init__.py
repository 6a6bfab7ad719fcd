"""Reads tasks that were published for other programs, and converts them to folders of cases."""
