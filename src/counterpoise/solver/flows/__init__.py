"""All other groups: blocks, quotas, cheapest routes and the flows behind them, with ties settled by ids."""
