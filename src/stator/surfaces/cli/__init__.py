"""The command line: one file per command in `commands/`, what they share in `parts/`, output in `render/`.

Commands contain no rules of their own: they call `runtime` and print the answer as text or as JSON. A command is
imported only when it runs, so that every command starts fast. `exits` lists the exit codes.
"""
