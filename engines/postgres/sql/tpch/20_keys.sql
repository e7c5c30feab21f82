-- Primary keys as clause 1.4.1 names them (constraints are optional, clause 1.4.2). The largest first: parallel connections end together.

\ir ../../../_sql/tpch/20_keys.sql
