"""Updates: the state that an audit saves, and the next audit that starts from it."""
