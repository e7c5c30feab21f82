"""The user's own queries over the user's own data (docs/your-own-workload.md)."""
