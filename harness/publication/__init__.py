"""Runs that anyone may read: pseudonyms, rules of what is published by field, and the export."""
