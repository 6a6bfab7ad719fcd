"""Sends notifications."""
