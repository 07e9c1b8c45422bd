"""Files of tables as tasks write them."""
