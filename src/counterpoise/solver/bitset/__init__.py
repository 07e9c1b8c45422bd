"""Groups whose members are all in one block: augmenting paths on sets of members, each set one Python integer."""
