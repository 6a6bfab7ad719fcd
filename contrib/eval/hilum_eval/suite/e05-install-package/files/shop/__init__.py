"""Price lists."""
