"""Folds of one group's records in log order: to steps with their causes, and to replays of each step. Without Spark."""
