"""sqlite_worker DATABASE JOURNAL NUMBER SEED: transactions on a shared database until standard input ends.

Each moves an amount between two accounts and writes down that it did, with this worker's next number; what has been committed is
printed, so that whoever kills this process knows what must be there. Exit code 3: what it read was wrong.
"""

import random
import select
import sqlite3
import sys
import time

ACCOUNTS = 64
TOTAL = ACCOUNTS * 1000
BUSY_S = 60.0


def main(path, journal, number, seed):
    chance = random.Random(seed)
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    told = connection.execute(f"PRAGMA journal_mode={journal}").fetchone()[0]
    if told.lower() != journal.lower():
        print(f"wrong: the journal mode is {told}", flush=True)
        return 3
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_size=-256")
    step = connection.execute("SELECT coalesce(max(step), 0) FROM done WHERE worker = ?", (number,)).fetchone()[0]
    while not select.select([sys.stdin], [], [], 0)[0]:
        step += 1
        try:
            wrong = transaction(connection, chance, number, step)
        except sqlite3.OperationalError as reason:
            if "locked" in str(reason) or "busy" in str(reason):
                # Nothing was committed: another try is right. (Waiting longer than BUSY_S is not: the parent counts.)
                print(f"busy {reason}", flush=True)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                step -= 1
                time.sleep(chance.random() * 0.01)
                continue
            raise
        if wrong:
            print(f"wrong: {wrong}", flush=True)
            return 3
        print(f"done {step}", flush=True)
        # Others ask for the lock only now and then: without a pause they would hardly ever find it free.
        time.sleep(chance.random() * 0.005)
    return 0


def transaction(connection, chance, number, step):
    """One transfer; a sentence if what was read cannot be."""
    connection.execute("BEGIN IMMEDIATE")
    total = connection.execute("SELECT sum(amount) FROM accounts").fetchone()[0]
    last = connection.execute("SELECT coalesce(max(step), 0) FROM done WHERE worker = ?", (number,)).fetchone()[0]
    if total != TOTAL:
        return f"the accounts sum up to {total}, not {TOTAL}"
    if last != step - 1:
        return f"the last step written down is {last}, not {step - 1}"
    one, other = chance.sample(range(ACCOUNTS), 2)
    amount = chance.randrange(1, 50)
    connection.execute("UPDATE accounts SET amount = amount - ? WHERE id = ?", (amount, one))
    connection.execute("UPDATE accounts SET amount = amount + ? WHERE id = ?", (amount, other))
    connection.execute("INSERT INTO done VALUES (?, ?, ?)", (number, step, bytes(chance.randrange(20, 6000))))
    if chance.random() < 0.1:
        connection.execute("DELETE FROM done WHERE worker = ? AND step < ?", (number, step - 20))
    if chance.random() < 0.1:
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO done VALUES (?, ?, ?)", (number, step, b"after a rollback"))
    connection.execute("COMMIT")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
