"""One run from its specification to its stored result."""
