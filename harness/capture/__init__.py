"""A user's load: recorded from the logs of a server, written to be replayed."""
