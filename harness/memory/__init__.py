"""Memory as a controlled variable: the cap on server and page cache, eviction, residency."""
