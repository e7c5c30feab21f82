"""A recorded load, offered again: sessions, transactions and statements at their times."""
