"""The audit that goes on where the last one ended: new records only, through the same stages and folds."""
