"""The contract suite: what every store must do, as tests that anyone's store can run.

It speaks only to `stator.store.port` and the model, never to a concrete store, and skips nothing: a
store that cannot do something the port promises does not pass.
"""
