"""Balancing summed lag: bound, placement, ejection chains, exchanges. `assignors.lag_sticky` puts them together."""
