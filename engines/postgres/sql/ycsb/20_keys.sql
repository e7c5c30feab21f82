\ir ../../../_sql/ycsb/20_keys.sql
