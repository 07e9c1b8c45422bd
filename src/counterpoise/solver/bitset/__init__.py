"""Groups whose loads can be within one of each other: augmenting paths on sets of members, each set one Python integer."""
