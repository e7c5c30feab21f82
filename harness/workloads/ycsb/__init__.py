"""YCSB's core workloads (Cooper et al., SoCC 2010): records that are read and written by key."""
