\ir ../../../_sql/htap/10_tables.sql
