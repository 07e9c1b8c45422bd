"""All other groups: blocks, quotas, minimum-cost flows; ids settle every tie."""
