"""TPC-H-derived decision support: 22 queries over eight tables (TPC-H 3.0.1).

Results are not TPC-H results: nothing here was audited.
"""
