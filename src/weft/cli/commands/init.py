"""The commands for a first acquaintance: init, demo, version."""

from argparse import Namespace
from pathlib import Path

from weft import __version__
from weft.cli.exit_codes import BAD_INPUT, OK, GiveUp
from weft.cli.session import CommandSession

FIRST_WORKFLOW = """\
# Run it with: weft run FILE --input who=you
# Tasks start as soon as what they need is done; the rest runs in parallel.
name: first
inputs:
  who: {type: string, default: world}
tasks:
  hello: echo "Hello, ${{ inputs.who }}"
  fetch:
    run: sleep 1 && echo "fetched"
    retry: {max: 3, backoff: 1s}
  check:
    needs: [fetch]
    run: echo "checked"
    timeout: 30s
  report:
    needs: [hello, check]
    run: echo "all done"
"""


def init(args: Namespace, session: CommandSession) -> int:
    path = Path(args.file)
    try:
        with path.open("w" if args.force else "x", encoding="utf-8") as file:
            file.write(FIRST_WORKFLOW.replace("FILE", str(path)))
    except FileExistsError:
        raise GiveUp(BAD_INPUT, f"{path} is there already", "name another file, or use --force") from None
    except (OSError, ValueError) as error:
        raise GiveUp(BAD_INPUT, f"{path} cannot be written: {getattr(error, 'strerror', error)}") from None
    if args.json:
        session.print_json({"file": str(path)})
    else:
        session.print(f"wrote {path}; now: weft run {path}")
    return OK


def version(args: Namespace, session: CommandSession) -> int:
    if args.json:
        session.print_json({"version": __version__})
    else:
        session.print(f"weft {__version__}")
    return OK


def demo(args: Namespace, session: CommandSession) -> int:
    from weft.demo.show import show

    return show(session.out, json=args.json, ui=args.ui)
