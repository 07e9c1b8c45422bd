"""Captures without a broker: from segment files of a backup, and from the text of Kafka's own tool."""
