# How loadgen's back end for RocksDB is built: without RocksDB. The library is opened when a
# spec names it, so that one build serves every release.
add_backend(rocksdb DEBIAN_PACKAGE libjansson-dev)
