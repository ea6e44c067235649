"""`gedi completion`: a script that lets the shell complete commands, flags and files."""

from __future__ import annotations

import argparse
import sys

from gedi.errors import ConfigError

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
FILE_METAVARS = {
    "DATA",
    "DATA2",
    "FILE",
    "FILE.yaml",
    "FILE.html",
}  # metavars of arguments that name a file or a folder
FOLDERS = {"RUN", "DIR"}


def run_completion(args: argparse.Namespace) -> None:
    try:
        import shtab
    except ImportError as error:
        raise ConfigError("gedi completion needs shtab: pip install 'gedi-ssl[completion]'.") from error
    for command in args.parser.commands.values():
        for action in command._actions:
            if action.metavar in FILE_METAVARS | FOLDERS:
                action.complete = shtab.FILE if action.metavar in FILE_METAVARS else shtab.DIRECTORY
    sys.stdout.write(shtab.complete(args.parser, shell=args.shell))
