"""The tests of counterpoise; one folder per layer."""
