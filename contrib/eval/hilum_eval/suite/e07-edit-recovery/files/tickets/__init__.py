"""Sells tickets."""
