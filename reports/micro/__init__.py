"""Reports of microbenchmarks: what a device likes, servers side by side, price-performance."""
