"""The store: runs, datasets, and the schemas of every document."""
