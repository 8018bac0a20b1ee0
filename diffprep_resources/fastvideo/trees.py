"""What lies in the folders that FastVideo's trainers read, besides the parquet files."""

CACHE = "map_style_cache"
"""A trainer's list of the files of its root, believed while the first of them exists: a pickle."""
