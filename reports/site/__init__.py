"""A static site of one or several results stores, for readers without the harness."""
