"""HammerDB 4 to 6 as driver: it builds its own schema, drives it, and reports NOPM and TPM.

``find`` (installation.py) the program, then ``check`` that it can run here; ``target_of``
(dialect.py) an engine says what it is to connect to. ``build`` (process.py) fills the started,
empty engine; ``measure`` drives what ``build`` has made.

What HammerDB does otherwise than the specification, and than our client: docs/hammerdb.md.
"""
