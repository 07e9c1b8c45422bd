"""What a consumer feels of a rebalance: each client library with each strategy on a real broker (`python -m benchmarks.live`)."""
