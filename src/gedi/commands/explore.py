"""`gedi explore`: a run's report and a place to drop new data, served to this machine only."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from pathlib import Path

from gedi.commands.terminal import err, out, say


def run_explore(args: argparse.Namespace) -> None:
    from gedi import runs
    from gedi.explore import ExploreServer, Site, find_examples

    model = runs.load(args.model)
    examples = find_examples(model, Path(args.model), args.data)
    with ExploreServer(Site(Path(args.model), examples), port=args.port) as server:
        say(out, server.url)
        say(err, "open this URL in a browser on this machine; only someone with the URL can connect; Ctrl-C stops it")
        if args.browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say(err, "gedi explore has stopped")
    _leave()


def _leave() -> None:
    """End the process here: in Python's normal shutdown, a torch thread may abort it, and nothing is left to save."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
