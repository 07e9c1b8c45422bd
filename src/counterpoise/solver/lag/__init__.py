"""`lag-sticky`: lag shared out within a tolerance of a proven bound, beside the exact engine and sharing only its classes."""
