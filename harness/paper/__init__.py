"""A paper's tables and figures: what this host can run of them, within a budget."""
