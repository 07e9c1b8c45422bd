"""The tutorials of the documentation, done as a reader does them."""
