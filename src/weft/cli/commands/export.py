"""export: a flow written in Python as the definition that it is."""

import sys
from argparse import Namespace

from weft.cli.definition_input import load_named
from weft.cli.exit_codes import OK
from weft.cli.session import CommandSession


def export(args: Namespace, session: CommandSession) -> int:
    from weft.authoring.yaml_export import yaml_of

    document = load_named(args.file).document
    if args.json:
        session.print_json(document)
    else:
        text = yaml_of(document)
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())  # a definition is UTF-8, whatever the terminal speaks
        sys.stdout.buffer.flush()
    return OK
