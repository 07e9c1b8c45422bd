"""The input of an audit: captures, files and tables, checked before Spark starts, and the part of them that is audited."""
