"""RocksDB, a library inside the client that drives it."""
