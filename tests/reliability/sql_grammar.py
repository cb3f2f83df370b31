"""Random SQL for `stator sql`: statements over SQLite's grammar that try to reach a table of the store."""

from __future__ import annotations

import random

VIEWS = {
    "sessions": "id name project agent mode status created updated turns tokens cached cost_usd cost_computed asked",
    "commits": "session seq id hash kind turn at actor tool status effect cause happened text input output"
    " input_hash summary why tokens cached cost_usd cost_computed",
    "turns": "session turn first last at status happened ended prompt calls failed tokens cached"
    " cost_usd cost_computed",
    "calls": "session seq call tool effect status cause attempt outcome turn at happened took input input_hash"
    " output summary why",
    "records": "session collection seq turn op id record",
    "files": "session seq turn id path op before after",
    "decisions": "session seq turn id topic what why supersedes",
    "revisions": "session seq turn id sha subject branch pushed",
    "state": "session project collection seq turn id record",
    "spend": "session unit amount",
}
TABLES = {
    "meta": "key value",
    "log": "k id hash salts body",
    "blob": "k digest size data",
    "blob_use": "blob log",
    "session": "s id tenant project name holder record parent counts",
    "alias": "tenant source foreign_id s",
    "commit_ix": "slot k",
    "origin_ix": "s kind source foreign_id attempt seq",
    "turn_ix": "s turn first last at status",
    "rec": "s c seq n op was turn id key body",
    "flush_ix": "s seq",
    "snap": "s c seq live",
    "call_ix": "s seq call tool",
    "sqlite_schema": "type name tbl_name rootpage sql",
    "sqlite_master": "type name tbl_name rootpage sql",
    "sqlite_temp_schema": "type name tbl_name rootpage sql",
    "sqlite_temp_master": "type name tbl_name rootpage sql",
    "sqlite_stat1": "tbl idx stat",
    "sqlite_dbpage": "pgno data",
    "dbstat": "name path pageno",
    "fts5vocab": "term doc cnt",
}
ASKING = (
    *(
        "json_each('[1,2]')",
        "json_tree('{\"a\":[1]}')",
        "pragma_table_list",
        "pragma_database_list",
    ),
    *("pragma_table_info('meta')", "pragma_table_xinfo('log')", "pragma_index_list('log')"),
    *(
        "pragma_function_list",
        "pragma_module_list",
        "pragma_compile_options",
        "generate_series(1,3)",
    ),
    *("bytecode('SELECT * FROM meta')", "tables_used('SELECT * FROM log')", "carray(1,2)"),
    *("fsdir('.')", "csv('x')", "zipfile('x')", "sqlite_dbpage('main')", "dbstat('main')"),
)
FUNCTIONS = (
    *(
        "abs(%s)",
        "coalesce(%s, 1)",
        "hex(%s)",
        "quote(%s)",
        "length(%s)",
        "typeof(%s)",
        "upper(%s)",
    ),
    *(
        "count(%s)",
        "group_concat(%s)",
        "json_group_array(%s)",
        "max(%s)",
        "json_array(%s)",
        "unhex(%s)",
    ),
    *("row_number() OVER (ORDER BY %s)", "lag(%s) OVER ()", "sum(%s) OVER (PARTITION BY 1)"),
    *("first_value(%s) OVER (ROWS UNBOUNDED PRECEDING)", "printf('%%s', %s)", "substr(%s, 1, 40)"),
    *("commit_field(%s, 'kind')", "record_id(%s)", "collection_name(%s)", "load_extension(%s)"),
    *("readfile(%s)", "writefile('stray.out', %s)", "fts3_tokenizer(%s)", "sqlite_log(1, %s)"),
    *("edit(%s)", "sqlite_compileoption_get(%s)", "rtreecheck(%s)", "subtype(%s)", "eval(%s)"),
)
OTHERS = (
    *(
        "PRAGMA table_list",
        "PRAGMA writable_schema = 1",
        "PRAGMA database_list",
        "PRAGMA main.cache_size",
    ),
    *("ATTACH '%(path)s' AS other", "ATTACH 'file:%(path)s?mode=rw' AS other", "DETACH main"),
    *(
        "CREATE TEMP TABLE x AS SELECT * FROM meta",
        "CREATE VIEW x AS SELECT * FROM meta",
        "CREATE TABLE meta(a)",
    ),
    *(
        "CREATE TEMP TRIGGER x AFTER INSERT ON log BEGIN SELECT 1; END",
        "CREATE INDEX x ON commits(seq)",
    ),
    *(
        "CREATE VIRTUAL TABLE x USING fts5(a)",
        "CREATE VIRTUAL TABLE x USING commits",
        "CREATE VIRTUAL TABLE temp.y USING dbstat",
    ),
    *(
        "INSERT INTO meta VALUES ('a', 'b')",
        "INSERT INTO commits(seq) VALUES (1)",
        "UPDATE commits SET seq = 1",
    ),
    *(
        "DELETE FROM sessions",
        "DROP TABLE meta",
        "DROP TABLE commits",
        "ALTER TABLE log RENAME TO x",
    ),
    *(
        "REPLACE INTO sqlite_schema VALUES (1,2,3,4,5)",
        "VACUUM",
        "VACUUM INTO 'stray.out'",
        "REINDEX",
        "ANALYZE",
    ),
    *(
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT x",
        "RELEASE x",
        "BEGIN EXCLUSIVE",
        ";",
        "",
        "-- nothing",
        "/*",
    ),
)


class Grammar:
    """A source of statements; the same seed gives the same ones."""

    def __init__(self, seed: int, path: str) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.parts: list[tuple[str, str]] = []
        """The common table expressions in scope: name, and columns."""

    def statement(self) -> str:
        self.parts = []
        chance = self.random.random()
        if chance < 0.05:
            return self.random.choice(OTHERS) % {"path": self.path}
        if chance < 0.08:
            return f"{self.select(2)}; {self.select(1)}"
        before = self.random.choice(["EXPLAIN ", "EXPLAIN QUERY PLAN "]) if chance < 0.2 else ""
        return before + self.select(3)

    def select(self, depth: int) -> str:
        kept = len(self.parts)
        clause = self.with_clause(depth) if depth and self.random.random() < 0.5 else ""
        if clause and self.random.random() < 0.3:
            body = f"SELECT * FROM {self.quoted(self.random.choice(self.parts)[0])}"
        else:
            body = self.core(depth)
        if depth and self.random.random() < 0.15:
            word = self.random.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
            body = f"{body} {word} {self.core(depth - 1)}"
        del self.parts[kept:]
        return f"{clause}{body} LIMIT {self.random.randint(1, 30)}"

    def with_clause(self, depth: int) -> str:
        made = []
        for _ in range(self.random.randint(1, 2)):
            name = self.random.choice([*VIEWS, *TABLES, "x", "temp", "main"])
            hint = self.random.choice(["", "", "MATERIALIZED ", "NOT MATERIALIZED "])
            inner = self.forged(name) if self.random.random() < 0.3 else self.select(depth - 1)
            if self.random.random() < 0.2:
                made.append(
                    f"{self.quoted(name)}(a) AS {hint}(SELECT 1 UNION ALL SELECT a + 1 FROM {name} LIMIT 5)"
                )
                columns = "a"
            else:
                made.append(f"{self.quoted(name)} AS {hint}({inner})")
                columns = self.random.choice([*VIEWS.values(), *TABLES.values()])
            self.parts.append((name, columns))
        return f"WITH {self.random.choice(['', 'RECURSIVE '])}{', '.join(made)} "

    def forged(self, name: str) -> str:
        """A part that reads one table of the store, perhaps under the name of a view."""
        table, columns = self.random.choice([*TABLES.items()])
        shown = self.random.choice(
            ["*", "count(*)", columns.replace(" ", ", "), f"{self.quoted(table)}.*"]
        )
        text = f"SELECT {shown} FROM {self.quoted(table)}"
        if self.random.random() < 0.3:
            text = f"SELECT * FROM ({text}) AS {self.quoted(name)}"
        if self.random.random() < 0.2:
            inner = self.quoted(self.random.choice([*VIEWS]))
            text = f"WITH {inner} AS ({text}) SELECT * FROM {inner}"
        return text

    def core(self, depth: int) -> str:
        if self.random.random() < 0.05:
            return f"SELECT * FROM (VALUES ({self.literal()}, {self.literal()}))"
        source, columns = self.source(depth)
        if self.random.random() < 0.3:
            other, more = self.source(max(depth - 1, 0))
            join = self.random.choice(
                [", ", " JOIN ", " NATURAL JOIN ", " LEFT JOIN ", " CROSS JOIN ", " FULL JOIN "]
            )
            source, columns = source + join + other, f"{columns} {more}"
        shown = ", ".join(
            self.random.choice(["*", "*", "count(*)", "1"])
            if self.random.random() < 0.5
            else self.expression(columns, depth)
            for _ in range(self.random.randint(1, 3))
        )
        text = f"SELECT {self.random.choice(['', '', 'DISTINCT '])}{shown} FROM {source}"
        if self.random.random() < 0.3:
            text += f" WHERE {self.expression(columns, depth)}"
        if self.random.random() < 0.15:
            text += f" GROUP BY {self.expression(columns, 0)}"
        return text

    def source(self, depth: int) -> tuple[str, str]:
        chance = self.random.random()
        if depth and chance < 0.15:
            return (
                f"({self.select(depth - 1)}) AS {self.quoted(self.random.choice([*VIEWS, 'y']))}",
                "id",
            )
        if chance < 0.2:
            return self.random.choice(ASKING), "name"
        if self.parts and chance < 0.45:
            name, columns = self.random.choice(self.parts)
            return self.quoted(name), columns
        if chance < 0.6:
            name, columns = self.random.choice([*TABLES.items()])
        else:
            name, columns = self.random.choice([*VIEWS.items()])
        schema = self.random.choice(
            ["", "", "", "", "main.", "temp.", '"main".', "[temp].", "other."]
        )
        alias = self.random.choice(
            ["", "", "", f" AS {self.quoted(self.random.choice([*TABLES, *VIEWS]))}"]
        )
        return schema + self.quoted(name) + alias, columns

    def expression(self, columns: str, depth: int) -> str:
        chance = self.random.random()
        if depth and chance < 0.1:
            inner = self.select(depth - 1)
            return self.random.choice([f"({inner})", f"EXISTS ({inner})", f"1 IN ({inner})"])
        if chance < 0.35:
            return self.random.choice(FUNCTIONS) % self.expression(columns, 0)
        if chance < 0.45:
            sign = self.random.choice(
                ["=", "<", ">=", "||", "+", "IS", "LIKE", "GLOB", "->>", "COLLATE nocase ="]
            )
            return f"{self.expression(columns, 0)} {sign} {self.expression(columns, 0)}"
        if chance < 0.5:
            return f"CASE WHEN {self.literal()} THEN {self.column(columns)} ELSE CAST({self.literal()} AS BLOB) END"
        return self.column(columns) if chance < 0.9 else self.literal()

    def column(self, columns: str) -> str:
        name = self.random.choice([*columns.split(), "rowid"]) if columns else "rowid"
        return self.quoted(name) if self.random.random() < 0.2 else name

    def literal(self) -> str:
        return self.random.choice(
            ["1", "0", "-1", "'a'", "x'00ff'", "NULL", "1e3", "'s_00'", "'$.id'", "random()"]
        )

    def quoted(self, name: str) -> str:
        name = self.random.choice([name, name, name, name.upper(), name.title()])
        return self.random.choice(["%s", "%s", "%s", '"%s"', "[%s]", "`%s`", "'%s'"]) % name
