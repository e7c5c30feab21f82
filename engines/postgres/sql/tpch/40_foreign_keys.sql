-- Foreign keys as clause 1.4.1 names them: checked once against the loaded rows.

\ir ../../../_sql/tpch/40_foreign_keys.sql
