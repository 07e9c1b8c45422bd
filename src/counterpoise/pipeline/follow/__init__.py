"""The audit that keeps running: every rebalance in the tables within seconds, current figures for Prometheus."""
