"""Without a broker: segment files of a backup, and the text of Kafka's own tool, to the records they hold."""
