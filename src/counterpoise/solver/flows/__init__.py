"""Groups that neither `equal` nor `bitset` can plan: blocks, quotas, minimum-cost flows; ids settle every tie."""
