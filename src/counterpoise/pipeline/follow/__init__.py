"""The following audit: every rebalance is in the tables within seconds, and current figures are served for Prometheus."""
