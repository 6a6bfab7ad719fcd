"""Tables of programs with their options, and the code that reads them."""
