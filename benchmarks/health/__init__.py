"""Backtest of the table `health`: recordings with planted trouble, Burrow's rules beside it, and the scores of both."""
