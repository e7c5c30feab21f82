"""The store: runs, datasets, and the structs of their documents."""
