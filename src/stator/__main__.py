"""`python -m stator`: the command, for environments whose scripts are not on the path."""

from stator.surfaces.cli.main import main

if __name__ == "__main__":
    main()
