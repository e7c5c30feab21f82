"""What MySQL and MariaDB have in common: both are InnoDB behind the same protocol."""
