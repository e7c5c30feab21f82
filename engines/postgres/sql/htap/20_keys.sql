\ir ../../../_sql/htap/20_keys.sql
