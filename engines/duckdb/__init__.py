"""DuckDB: a library inside a worker process of ours."""
