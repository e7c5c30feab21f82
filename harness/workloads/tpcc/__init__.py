"""TPC-C-derived order entry: five transactions over nine tables (TPC-C 5.11).

Results are not TPC-C results: nothing here was audited.
"""
