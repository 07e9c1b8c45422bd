"""The exact engine: optimal balance, then maximal stickiness, for any subscriptions.

Start reading at `engine.solve`. In the order in which a problem passes through it: `equal` (equal subscriptions), `bitset` (all
members in one block, augmenting paths on sets of members), `classes` and `racks` (interchangeable partitions and members),
`claims` (counted), `flows` (everything else), `evenness` (on request) and `decode` (counts back to partitions).
docs/algorithm.md has the proof. `lag` serves `lag-sticky` and shares only the classes.
"""
