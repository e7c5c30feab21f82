"""The official YCSB client as driver: its core from Maven Central, bindings of our own.

Built with an engine's binding (build.py), it is run (client.py); metrics.py reads its result.
How it differs from our client: docs/ycsb-client.md.
"""
