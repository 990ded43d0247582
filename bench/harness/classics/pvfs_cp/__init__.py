"""The profile of `pvfs2-cp`, 2007."""
