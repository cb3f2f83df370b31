"""Stores: where commits are kept. One port, several stores behind it.

`port` says what a store promises; its docstrings are the contract, and `contract` is the suite that
tests it. A store imports the model and never the runtime. Concrete stores are imported only by
`stator.connect`, `stator.testing` and tests: everything else speaks to the port. Stores share named
SQL statements, not a superclass; they do not read the environment and do not print.
"""
