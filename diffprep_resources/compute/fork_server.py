"""Imported by the fork server and nobody else, before all else: the server ends with the process
that started it, also while it imports, and its workers end with it.

Its own watch does not do that: the workers hold the pipe whose end it waits for.
"""

from diffprep_resources.compute.parent_death import die_with_parent

die_with_parent()
