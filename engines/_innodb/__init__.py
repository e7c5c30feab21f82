"""Parts that MySQL and MariaDB have in common: InnoDB under the same protocol."""
