"""Microsoft SQL Server: a server of the user's, by DSN."""
