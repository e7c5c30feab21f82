"""Transactions and analytics at once: TPC-C's terminals and streams of queries on one database."""
