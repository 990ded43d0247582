"""The traversal of directories, 2011."""
