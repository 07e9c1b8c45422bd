"""The exact engine: optimal balance, then maximal stickiness, for any subscriptions."""
