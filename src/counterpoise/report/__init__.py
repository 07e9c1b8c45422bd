"""The audit's report: one self-contained HTML page, and the actions and findings in words for the terminal."""
