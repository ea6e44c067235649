"""A run's report and a page to drop new data on, served to this machine only."""

from gedi.explore.server import ExploreServer
from gedi.explore.site import Site, find_examples
