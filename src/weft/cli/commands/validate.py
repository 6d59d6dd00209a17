"""validate, graph and schema, wired to the command line."""

import sys
from argparse import Namespace

from weft.cli import definition_views as definitions
from weft.cli.session import CommandSession


def validate(args: Namespace, session: CommandSession) -> int:
    return definitions.validate(args.files, args.json, sys.stdout, sys.stderr, imports=args.imports)


def schema(args: Namespace, session: CommandSession) -> int:
    return definitions.schema(sys.stdout)


def graph(args: Namespace, session: CommandSession) -> int:
    width = session.out.size()[0] if session.out.tty else 100
    return definitions.graph(args.file, args.format, args.json, sys.stdout, sys.stderr, width)
