"""The exact engine: optimal balance, then maximal stickiness, for any subscriptions.

Start reading at `engine.solve`. In the order in which a problem passes through them:

`equal` (equal subscriptions, no flow), `classes` and `racks` (interchangeable partitions and members), `history` (claims,
counted), `levels` (quotas), `balance` (blocks), `transport` (the short way), `stickiness` and `evenness` (min-cost flows),
`flow`, `augment` and `waves` (maximum flows settled by ids), `decode` (counts back to partitions). docs/algorithm.md has the proof.
The modules `lag_*` and `longest_first` serve `lag-sticky` and share only the classes.
"""
