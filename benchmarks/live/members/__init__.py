"""Consumers as in their libraries' tutorials; each appends a line `seconds partition offset` per record to its journal."""
