"""Groups in which of any two topics one has all subscribers of the other: dealt along one row of members."""
