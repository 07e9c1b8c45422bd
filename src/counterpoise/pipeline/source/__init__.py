"""What an audit reads: captures, files and tables, judged before Spark starts, and which part of them is looked at."""
