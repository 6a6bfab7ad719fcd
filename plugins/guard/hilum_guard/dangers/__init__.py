"""Find what is dangerous or notable in a call, for the people who approve calls."""
