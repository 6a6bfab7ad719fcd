"""Permission rules: their files, patterns and matching, and ``hilum permissions``."""
