"""Opens the two sample sessions that are shown where there is nothing else, in a store of their own in memory."""

from __future__ import annotations

from importlib.resources import as_file, files

from stator.connect import connect
from stator.runtime.facade.store import Store

PROJECT = "sample"
NAMES = ("fix-login.stator", "pay-invoice-42.stator")


def open_samples() -> Store:
    """A store in memory with the samples. They are bundles, made by scripts/make_samples.py."""
    store = connect("memory:", project=PROJECT)
    for name in NAMES:
        with as_file(files("stator.surfaces.web").joinpath("samples", name)) as path:
            store.import_bundle(path, project=PROJECT)
    return store
