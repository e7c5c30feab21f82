# How loadgen's back end for VoltDB is built: it speaks the wire protocol itself.
add_backend(voltdb DEBIAN_PACKAGE libjansson-dev)
