"""The PostgreSQL store. `open_store` gives one tenant's part of a database, `prepare` makes its tables."""

from stator.errors import NotAStore

try:
    import psycopg as psycopg
except ImportError as error:
    raise NotAStore(
        "PostgreSQL stores need a package that is not installed",
        hint="pip install 'stator[postgres]'",
    ) from error

from stator.store.postgres.roles import counts as counts
from stator.store.postgres.schema import prepare as prepare
from stator.store.postgres.setup import ServerSetup as ServerSetup
from stator.store.postgres.setup import set_up as set_up
from stator.store.postgres.store import PostgresStore as PostgresStore
from stator.store.postgres.tenant_store import names_several_hosts as names_several_hosts
from stator.store.postgres.tenant_store import open_store as open_store
