"""tierbench: does a faster or larger memory tier pay off for a real database, and why?

The life of a run::

    profile ─expand→ plan ─each run→ place → restore golden → start → evict caches
      → warm up → measure (driver ∥ monitors) → counters → check → stop → store → report

``cli`` parses and prints; ``profile`` expands; ``runner`` walks the flow above;
``tiers``, ``engines`` and ``workloads`` are the nouns it works with; ``supervise``
makes sure that nothing outlives it; ``store`` keeps what was found; ``reports``
reads the store and nothing else.
"""

__version__ = "0.1.0"
