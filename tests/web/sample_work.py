"""What the sample session is about: fifteen turns at the checkout of a shop, with the files they write."""

from __future__ import annotations

import msgspec


class SampleTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn: what is asked, what is done about it, and what is said in the end."""

    asked: str
    reads: tuple[str, ...] = ()
    writes: tuple[tuple[str, str], ...] = ()
    """Paths, and the whole text of each."""
    edits: tuple[tuple[str, str, str], ...] = ()
    """Paths, what is replaced in each, and by what."""
    runs: tuple[str, ...] = ("pytest -q",)
    """Commands; one that the sample's shell knows to fail fails."""
    decided: tuple[str, str, str, tuple[str, ...]] | None = None
    """A topic, the decision, why, and over what."""
    step: str = ""
    minutes: float = 2.0
    said: str

    @property
    def about(self) -> tuple[str, ...]:
        """The files that it changes, or else those that it reads."""
        return tuple(path for path, *_ in (*self.writes, *self.edits)) or self.reads


CHARGE = '''"""Charges the card of a basket."""

from checkout import bank, receipts


def charge(order):
    total = sum(line.price * line.count for line in order.lines)
    answer = bank.charge(order.card, total)
    receipts.keep(order, answer)
    return answer
'''
TEST_CHARGE = """from checkout.charge import charge


def test_two_clicks_charge_once(shop):
    order = shop.order("tea", "cups")
    charge(order)
    charge(order)
    assert shop.bank.charged == [order.total]
"""
MONEY = '''"""Money in whole cents: no float ever holds a price."""

from typing import NamedTuple


class Cents(NamedTuple):
    amount: int
    currency: str = "EUR"

    def __add__(self, other):
        assert self.currency == other.currency
        return Cents(self.amount + other.amount, self.currency)
'''
BANK = '''"""Talks to the bank."""

import time

TRIES = 3


class BankSilent(Exception):
    """The bank did not answer: it may have charged, or not."""


def charge(card, total):
    for attempt in range(TRIES):
        try:
            return _post("/charges", card=card, cents=total.amount)
        except TimeoutError:
            time.sleep(2**attempt)
    raise BankSilent(f"no answer after {TRIES} tries")
'''
RECEIPTS = '''"""Receipts are written once and never changed."""


def keep(order, answer):
    path = FOLDER / f"{order.id}.txt"
    with path.open("x") as file:
        file.write(f"{order.total} paid, {answer.reference}\\n")
'''
MAIL = '''"""Sends the receipt, after the charge and never before it."""


def send(order, receipt):
    OUTBOX.put({"to": order.mail, "text": receipt.read_text()})
'''
BASKET = '''"""A basket that survives a restart: it lives in the database."""


def load(customer):
    rows = db.query("select item, count from basket where customer = ?", customer)
    return [Line(*row) for row in rows]


def add(customer, item, count=1):
    db.run("insert into basket values (?, ?, ?)", customer, item, count)
'''
TOTALS = '''"""What a customer pays: lines, then discounts, then tax."""


def total(order, tax=19):
    net = sum(line.cents for line in order.lines)
    return Cents(net + net * tax // 100)
'''
CANCEL = '''"""A clerk cancels an order, with a reason."""


def cancel(order, clerk, reason):
    if not reason.strip():
        raise ValueError("say why the order is cancelled")
    db.run("update orders set cancelled_by = ?, reason = ? where id = ?", clerk, reason, order.id)
'''

WORK = (
    SampleTurn(
        asked="Customers are sometimes charged twice. Read how the checkout charges a card, change nothing yet.",
        reads=(
            "checkout/charge.py",
            "checkout/bank.py",
            "checkout/receipts.py",
            "tests/conftest.py",
        ),
        runs=("git log --oneline -5 -- checkout", "pytest -q"),
        said="`charge` has no memory: a second click calls `bank.charge` again, and the bank takes the money again. "
        "The tests never click twice.",
        minutes=3.5,
    ),
    SampleTurn(
        asked="Write a test for the double charge first.",
        reads=("tests/conftest.py",),
        writes=(("tests/test_charge.py", TEST_CHARGE),),
        runs=("pytest -q tests/test_charge.py",),
        decided=(
            "tests",
            "a test before the fix",
            "a fix without one would not be believed",
            ("fix it at once",),
        ),
        step="a test that shows it",
        said="The test fails as it should: the bank was charged twice for one order.",
        minutes=2.2,
    ),
    SampleTurn(
        asked="count money in cents",
        writes=(("checkout/money.py", MONEY),),
        reads=("checkout/totals.py",),
        decided=(
            "money",
            "whole cents, no floats",
            "0.1 + 0.2 is not 0.3, and the bank wants cents",
            ("Decimal",),
        ),
        step="money in cents",
        said="`Cents` adds only what has the same currency. Nothing uses it yet.",
        minutes=4.1,
    ),
    SampleTurn(
        asked="show the total with tax",
        writes=(("checkout/totals.py", TOTALS),),
        runs=("pytest -q", "ruff check checkout"),
        decided=("tax", "tax is added last", "discounts lower the tax too", ()),
        step="totals with tax",
        said="Totals are net lines plus tax, in cents. 31 tests pass.",
        minutes=3.0,
    ),
    SampleTurn(
        asked="retry the bank when it times out",
        reads=("checkout/bank.py",),
        edits=(
            (
                "checkout/bank.py",
                'def charge(card, total):\n    return _post("/charges", card=card, cents=total.amount)\n',
                BANK[BANK.index("def charge") :],
            ),
        ),
        runs=("pytest -q tests/test_bank.py", "pytest -q"),
        decided=(
            "when the bank is silent",
            "three tries, then a person",
            "more tries hide that it is down",
            ("for ever",),
        ),
        step="survive a silent bank",
        said="Three tries with a pause between them. **Two tests fail**: they expect the timeout itself.",
        minutes=6.5,
    ),
    SampleTurn(
        asked="those two tests are old, make them expect BankSilent",
        edits=(("tests/test_bank.py", "raises(TimeoutError)", "raises(BankSilent)"),),
        runs=("pytest -q tests/test_bank.py", "pytest -q"),
        said="Both expect `BankSilent` now, and pass.",
        minutes=1.4,
    ),
    SampleTurn(
        asked="keep the receipt, and send it by mail",
        writes=(("checkout/receipts.py", RECEIPTS), ("checkout/mail.py", MAIL)),
        decided=(
            "receipts",
            "receipts are never changed",
            "the tax office asks for them",
            ("one row in the database",),
        ),
        step="receipts",
        said="A receipt is a file that is opened with `x`: it cannot be written twice. Mail goes out after the charge.",
        minutes=5.2,
    ),
    SampleTurn(
        asked="make the basket survive a restart",
        writes=(("checkout/basket.py", BASKET),),
        runs=("sqlite3 shop.db .schema", "pytest -q"),
        decided=(
            "basket",
            "the basket lives in the database",
            "a restart must not lose it",
            ("a cookie",),
        ),
        step="baskets survive",
        said="Baskets are rows now. A restart in the middle of a purchase loses nothing.",
        minutes=7.8,
    ),
    SampleTurn(
        asked="let a clerk cancel an order",
        writes=(("checkout/cancel.py", CANCEL),),
        decided=("cancelling", "cancelling needs a reason", "clerks forget why they did it", ()),
        said="`cancel` refuses without a reason, and keeps who did it.",
        minutes=2.9,
    ),
    SampleTurn(
        asked="log every charge",
        reads=("checkout/charge.py",),
        edits=(
            (
                "checkout/charge.py",
                "    receipts.keep(order, answer)\n",
                '    log.info("charged %s for order %s", total, order.id)\n    receipts.keep(order, answer)\n',
            ),
        ),
        runs=("pytest -q tests/test_log.py", "pytest -q tests/test_log.py --log-level=INFO"),
        decided=("logging", "one line a charge", "support greps for the order", ()),
        said="One line a charge. The first run of the test failed because the level was `WARNING`.",
        minutes=2.0,
    ),
    SampleTurn(
        asked="check the card before the charge",
        reads=("checkout/bank.py", "checkout/cards.py"),
        runs=("grep -rn PREFIXES checkout", "pytest -q"),
        decided=(
            "cards",
            "the bank checks, we do not",
            "our list of prefixes was wrong twice",
            ("check prefixes",),
        ),
        step="check cards",
        said="Nothing to write: the bank refuses a bad card before it takes money, and says why.",
        minutes=3.3,
    ),
    SampleTurn(
        asked="round discounts",
        reads=("checkout/totals.py",),
        edits=(
            (
                "checkout/totals.py",
                "    return Cents(net + net * tax // 100)\n",
                "    net -= net * order.discount // 100\n    return Cents(net + net * tax // 100)\n",
            ),
        ),
        decided=(
            "discounts",
            "discounts are rounded down",
            "half a cent belongs to the customer",
            ("half to even",),
        ),
        said="Discounts come off before tax and are rounded down.",
        minutes=1.8,
    ),
    SampleTurn(
        asked="clean up old baskets",
        edits=(
            (
                "checkout/basket.py",
                "def add(",
                'def forget_old(days=30):\n    db.run("delete from basket where age > ?", days)\n\n\ndef add(',
            ),
        ),
        runs=("pytest -q", "ruff check checkout"),
        decided=("basket", "baskets are kept for thirty days", "the lawyers say so", ("for ever",)),
        said="`forget_old` runs at night and forgets what is older than thirty days.",
        minutes=2.4,
    ),
    SampleTurn(
        asked="Where are we with the double charge?",
        reads=("tests/test_charge.py", "checkout/charge.py", "checkout/bank.py"),
        runs=("pytest -q tests/test_charge.py",),
        said="Still open. There are two ways:\n\n1. lock the row of the order while it is charged;\n"
        "2. give every charge a key, so that the bank knows it again.",
        minutes=1.6,
    ),
    SampleTurn(
        asked="fix the double charge: lock the row",
        reads=("checkout/charge.py",),
        edits=(
            (
                "checkout/charge.py",
                "    answer = bank.charge(order.card, total)\n",
                '    with db.locked("orders", order.id):\n        if order.charged:\n            return order.charged\n'
                "        answer = bank.charge(order.card, total)\n        order.charged = answer\n",
            ),
        ),
        runs=("pytest -q tests/test_charge.py", "pytest -q tests/test_crash.py"),
        decided=(
            "double charge",
            "lock the row of the order",
            "no change at the bank is needed",
            ("keys at the bank",),
        ),
        step="charge once",
        said="Two clicks charge once. **One test fails**: when the process dies inside the lock, the charge is lost, "
        "and the next click charges again.",
        minutes=8.3,
    ),
)
"""The turns of the sample session, in order."""

BEFORE = {
    "checkout/charge.py": CHARGE,
    "checkout/bank.py": BANK[: BANK.index("def charge")]
    + 'def charge(card, total):\n    return _post("/charges", card=card, cents=total.amount)\n',
    "checkout/totals.py": "def total(order):\n    return sum(line.price for line in order.lines)\n",
    "checkout/receipts.py": "def keep(order, answer):\n    print(answer)\n",
    "checkout/cards.py": 'PREFIXES = ("4", "51", "52", "53")\n',
    "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef shop():\n    return Shop(bank=FakeBank())\n",
    "tests/test_bank.py": "def test_a_silent_bank(bank):\n    with raises(TimeoutError):\n        bank.charge()\n",
}
"""The files of the shop before the first turn."""

FAILS = {
    "pytest -q tests/test_charge.py": "F                                     [100%]\n"
    "E   AssertionError: assert [3900, 3900] == [3900]\n1 failed in 0.31s",
    "pytest -q tests/test_bank.py": "FF...                                 [100%]\n"
    "E   BankSilent: no answer after 3 tries\n2 failed, 3 passed in 7.02s",
    "pytest -q tests/test_crash.py": "F                                     [100%]\n"
    "E   AssertionError: the charge was lost with the lock\n1 failed in 0.44s",
    "pytest -q tests/test_mail.py": "E   AssertionError: 2 mails in the outbox\n1 failed, 4 passed in 0.52s",
    "pytest -q tests/test_log.py": "E   AssertionError: 'charged 39.00 EUR' not in caplog.text\n1 failed in 0.20s",
}
"""Commands that fail, the first time that they are run, with what they print."""
