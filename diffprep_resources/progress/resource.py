"""Progress as a Dagster resource: lines in the run's log."""

import dagster as dg

from diffprep_resources.progress.base import Progress
from diffprep_resources.progress.log import LogProgress


class LogProgressResource(dg.ConfigurableResource[Progress]):
    """Progress in the run's log."""

    def create_resource(self, context: dg.InitResourceContext) -> Progress:
        return LogProgress()
