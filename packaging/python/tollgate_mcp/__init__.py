"""Finds the program `tollgate` of this package and runs it in place of Python."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path


def program() -> Path:
    """The program that this package installed: next to this environment's commands."""
    name = "tollgate" + (".exe" if os.name == "nt" else "")
    schemes = [None, sysconfig.get_preferred_scheme("user")]
    folders = [sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts") for scheme in schemes]
    # `pip install --target` puts commands next to the packages.
    folders.append(Path(__file__).parent.parent / "bin")
    for folder in folders:
        path = Path(folder) / name
        if path.is_file():
            return path
    places = ", ".join(f"`{folder}`" for folder in folders)
    raise SystemExit(f"error: the program `{name}` is missing in {places}\nhint: install the package tollgate-mcp again")


def main() -> None:
    command = [str(program()), *sys.argv[1:]]
    if os.name == "nt":
        # Windows cannot replace a process. Ctrl-C reaches the program too, which decides when to end.
        child = subprocess.Popen(command)
        while True:
            try:
                raise SystemExit(child.wait())
            except KeyboardInterrupt:
                continue
    os.execv(command[0], command)
