"""`python -m stator`: the command, for environments whose scripts are not on the path."""

from stator.surfaces.cli.main import start

if __name__ == "__main__":
    start()
