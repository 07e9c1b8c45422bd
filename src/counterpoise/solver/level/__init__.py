"""Groups that can end level: dealt on sets of members, each one Python integer, without any flow. Start at `direct`."""
