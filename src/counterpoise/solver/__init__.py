"""The exact engine: optimal balance, then maximal stickiness, for any subscriptions.

Start reading at `engine.solve`. In the order in which a problem passes through it: `equal` (equal subscriptions, no flow),
`classes` and `racks` (interchangeable partitions and members), `history` (claims, counted); then the first of these rooms that
takes it: `level`, `chains`, and for all other groups `flows`; `evenness` where it is asked for; and `decode`
(counts back to partitions). docs/algorithm.md has the proof. `lag` serves `lag-sticky` and shares only the classes.
"""
