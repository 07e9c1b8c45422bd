"""Going on by tasks on local files: what is new of a bucket's groups, judged and replayed from where the last audit stood."""
