"""The study of 2004 made again: its shards, the world they run in, what is kept of them, and what they say of its conclusions.

The plans are in `bench/study-2004/plans`, one for each shard, as `thalweg sweep` reads them; `${...}` in them is what the world fills in.
"""
