"""What a restore says of the catalog that it replaces: who may do what again, jobs, servers that start meanwhile, and what fails then."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

import server.commands.restore
from catalog.backup.archive import contents, restore_archive, servers_in
from catalog.backup.restoring import restoring, starting
from catalog.store import CatalogStore
from lake.register.copied.copies import copy_back
from migrations import upgrade
from model.errors import IllegalMove, Unavailable
from server.commands.backup import backup
from server.commands.restore import restore
from tests.server.commands.conftest import Of, Open, Server
from tests.waiting import eventually


def test_what_hid_rows_of_tables_that_the_backup_lacks_is_told(shop: Server, opened: Open, of: Of, tmp_path: Path) -> None:
    """Before the advice to register them, which would show all to whoever gets a grant; with the database they were in."""
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.run(
        "CREATE DATABASE later", "CREATE TABLE later.t (id INT, s STRING)", "INSERT INTO later.t VALUES (1, 'x'), (2, 'y')",
        "CREATE POLICY few ON later.t TO ada USING (id = 1)", "CREATE MASKING POLICY hide ON later.t (s) TO ada USING ('-')",
        "GRANT SELECT (id, s) ON later.t TO ada UNTIL '2099-01-01'", "GRANT UPDATE ON later.t TO ROLE reader",
    )  # fmt: skip
    wanted = [shop.rows(text) for text in ("SHOW POLICIES ON later.t", "SHOW GRANTS ON later.t")]
    shop.close()
    statements = [one.statement for one in restore(of(shop.dsn), file, replace=True)[1]]
    made = statements.index("CREATE DATABASE `later`")
    registered = next(at for at, text in enumerate(statements) if text.startswith("CALL sys.register_table('later.t'"))
    again = [at for at, text in enumerate(statements) if text.split()[0] in ("CREATE", "GRANT") and at != made]
    assert [statements[at].split(" ON ")[0] for at in again] == [
        "CREATE POLICY `few`", "CREATE MASKING POLICY `hide`", "GRANT SELECT (`id`, `s`)", "GRANT UPDATE",
    ]  # fmt: skip
    assert max(again) < made < registered
    other = opened(shop.dsn)
    other.run(statements[made], statements[registered], *(statements[at] for at in again))
    assert [other.rows(text) for text in ("SHOW POLICIES ON later.t", "SHOW GRANTS ON later.t")] == wanted


def test_a_policy_of_a_table_brought_back_since_is_told(shop: Server, of: Of, tmp_path: Path) -> None:
    shop.run("ALTER TABLE shop.queue SET ('drop.retention' = '1 d')", "DROP TABLE shop.queue")
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.run("UNDROP TABLE shop.queue", "CREATE POLICY few ON shop.queue USING (id = 1)")
    shop.close()
    differences = restore(of(shop.dsn), file, replace=True)[1]
    statements = [one.statement for one in differences]
    (policy,) = [one for one in differences if one.statement.startswith("CREATE POLICY")]
    assert "as soon as UNDROP" in policy.what
    assert statements.index(policy.statement) < next(at for at, text in enumerate(statements) if text.startswith("UNDROP"))


@pytest.mark.parametrize("failing", ["differences", "keep_discarded", "_of_identity", "tags_without_files", "let_go"])
def test_what_fails_after_the_catalog_was_replaced_is_a_line(
    shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.run("REVOKE SELECT ON shop.orders FROM ROLE reader", "CREATE TABLE shop.later (id INT)")
    shop.close()

    def gone(*_: Any, **__: Any) -> Any:
        raise Unavailable("The store is away.")

    monkeypatch.setattr(server.commands.restore, failing, gone)
    told: list[str] = []
    differences = restore(of(shop.dsn), file, replace=True, tell=lambda one: told.append(one.statement))[1]
    assert told == ["REVOKE SELECT ON TABLE `shop`.`orders` FROM `reader`"]
    assert differences[0].statement == told[0]
    (line,) = [one.what for one in differences if "The store is away" in one.what]
    assert "repeat the restore" in line
    assert failing == "differences" or any("register_table" in one.statement for one in differences)


def test_connections_that_are_about_to_end_are_no_servers(shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The restore itself looks at the rights through a catalog of its own, whose connections Postgres takes a moment to end."""
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.close()
    asked: list[int] = []
    with psycopg.connect(shop.dsn, application_name="another") as lingering:

        def asked_in(conn: psycopg.Connection) -> int:
            if not asked:
                lingering.execute("SET application_name = 'sluice'")
                lingering.commit()
            asked.append(servers_in(conn))
            lingering.close()
            return asked[-1]

        monkeypatch.setattr(server.commands.restore, "servers_in", asked_in)
        restore(of(shop.dsn), file, replace=True)
    assert (asked[0], asked[-1]) == (1, 0)


def test_a_restore_that_was_killed_is_told_by_its_repeat(shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.run("REVOKE SELECT ON shop.orders FROM ROLE reader", "CREATE MASKING POLICY hide ON shop.orders (day) TO cy USING ('-')")
    with shop.catalog.transaction() as tx:
        tx.tokens.create("t", principal="ada", administrator=False, digest=b"t", expires_at=None)
    shop.close()

    def killed(*_: Any, **__: Any) -> Any:
        raise SystemExit(137)

    with monkeypatch.context() as patch:
        patch.setattr(server.commands.restore, "_rights_since", killed)
        with pytest.raises(SystemExit):
            restore(of(shop.dsn), file, replace=True)
    assert (file.with_name("b.rights")).stat().st_mode & 0o777 == 0o600
    statements = [one.statement for one in restore(of(shop.dsn), file, replace=True)[1]]
    assert sorted(text.split(" ON ")[0] for text in statements) == ["CREATE MASKING POLICY `hide`", "REVOKE SELECT"]
    assert [path.name for path in tmp_path.glob("b*")] == ["b"]
    assert restore(of(shop.dsn), file, replace=True)[1] == []


@pytest.mark.parametrize("lost", ["answer", "schema", "way back"])
def test_a_restore_whose_end_nobody_knows_is_told_by_its_repeat(
    shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Its rows are there, and Postgres went away before it said so, or just after: what was kept of the rights before was forgotten."""
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.run("REVOKE SELECT ON shop.orders FROM ROLE reader")
    shop.close()
    raised = False

    def after(*arguments: Any, **named: Any) -> Any:
        nonlocal raised
        done = restore_archive(*arguments, **named)
        raised = True
        if lost == "answer":
            raise Unavailable("Postgres went away before it answered.")
        return done

    def away(dsn: str, revision: str) -> None:
        if raised:
            raise IllegalMove("no schema") if lost == "way back" else Unavailable("Postgres restarts.")
        upgrade(dsn, revision)

    with monkeypatch.context() as patch:
        patch.setattr(server.commands.restore, "restore_archive", after)
        if lost != "answer":
            patch.setattr(server.commands.restore, "upgrade", away)
        with pytest.raises((Unavailable, IllegalMove)):
            restore(of(shop.dsn), file, replace=True)
    assert [one.statement for one in restore(of(shop.dsn), file, replace=True)[1]] == [
        "REVOKE SELECT ON TABLE `shop`.`orders` FROM `reader`"
    ]
    assert [path.name for path in tmp_path.glob("b*")] == ["b"]


def test_what_an_earlier_restore_kept_does_not_stand_for_what_is_replaced_now(
    shop: Server, opened: Open, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that replaced nothing left its file; a later one kept nothing, and its repeat said nothing of what was revoked in between."""
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.close()

    def ends(error: BaseException, failing: str) -> None:
        def end(*_: Any, **__: Any) -> Any:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(server.commands.restore, failing, end)
            with pytest.raises(type(error)):
                restore(of(shop.dsn), file, replace=True)

    ends(Unavailable("Postgres is away."), "restore_archive")
    kept = (rights := file.with_name("b.rights")).read_text()
    rights.write_text(json.dumps(json.loads(kept)[0]))  # as earlier versions did
    later = opened(shop.dsn)
    later.run("REVOKE SELECT ON shop.orders FROM ROLE reader")
    later.close()
    ends(IllegalMove("Servers hold connections."), "restore_archive")
    assert rights.read_text() == kept
    ends(SystemExit(137), "_rights_since")
    assert [one.statement for one in restore(of(shop.dsn), file, replace=True)[1]] == [
        "REVOKE SELECT ON TABLE `shop`.`orders` FROM `reader`"
    ]
    assert [path.name for path in tmp_path.glob("b*")] == ["b"]


def test_a_restore_that_was_refused_keeps_nothing(shop: Server, of: Of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backup(of(shop.dsn), file := tmp_path / "b")
    shop.close()

    def refused(*_: Any, **__: Any) -> Any:
        raise IllegalMove("Servers hold connections.")

    monkeypatch.setattr(server.commands.restore, "restore_archive", refused)
    with pytest.raises(IllegalMove):
        restore(of(shop.dsn), file, replace=True)
    assert [path.name for path in tmp_path.glob("b*")] == ["b"]


_ON_A_MEDIUM = """
import json, sys
from pathlib import Path
from server.commands.restore import restore
from server.settings.settings import read_settings
_, options, *files = sys.argv
settings = read_settings(json.loads(options))
print(json.dumps([[one.what for one in restore(settings, Path(file), replace=True)[1]] for file in files]))
"""


def test_a_backup_on_a_medium_that_is_read_only_is_restored(shop: Server, tmp_path: Path, of: Of) -> None:
    """Also one where a restore that was cut off kept rights before the medium became read only."""
    mapped = ["--map-root-user"] * (os.geteuid() != 0)
    mount = ["unshare", *mapped, "--mount", "sh", "-ec", 'mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"; exec "$@"']
    medium = tmp_path / "medium"
    medium.mkdir()
    if shutil.which("unshare") is None or subprocess.run([*mount, str(medium), "true"], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    backup(of(shop.dsn), medium / "new")
    shutil.copy(medium / "new", medium / "cut_off")
    nothing: dict[str, Any] = {"grants": [], "tokens": [], "members": [], "policies": {}, "tables": {}, "dropped": {}}
    (medium / "cut_off.rights").write_text(json.dumps(nothing))
    shop.close()
    options = {"SLUICE_DATA": str(tmp_path / "none"), "SLUICE_WAREHOUSE": str(tmp_path / "warehouse"), "SLUICE_CATALOG_DSN": shop.dsn}
    files = [str(medium / name) for name in ("new", "cut_off")]
    done = subprocess.run(
        [*mount, str(medium), sys.executable, "-c", _ON_A_MEDIUM, json.dumps(options), *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    new, cut_off = json.loads(done.stdout)
    assert new == []
    assert "remove it before the next restore" in cut_off[-1]


def test_a_server_that_starts_meanwhile_is_seen(
    shop: Server, of: Of, dsn: str, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, file = str(tmp_path / "copy"), tmp_path / "b"
    backup(of(dsn), file, files_to=copy)
    restore(of(empty_dsn), file, replace=False)
    held = contents(empty_dsn)
    opened: list[CatalogStore] = []
    copying = copy_back

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        with pytest.raises(IllegalMove, match="start the server once that has ended"), starting(empty_dsn):
            pass
        opened.append(CatalogStore(empty_dsn))  # as a version does that asks for nothing
        with opened[0].transaction() as tx:
            tx.databases.names()
        return copying(*arguments, **named)

    monkeypatch.setattr(server.commands.restore, "copy_back", meanwhile)
    with pytest.raises(IllegalMove, match="stop them first"):
        restore(of(empty_dsn), file, replace=True, files_from=copy)
    opened[0].close()
    assert contents(empty_dsn) == held
    with starting(empty_dsn), pytest.raises(IllegalMove, match="stop it first"), restoring(empty_dsn):
        pass


def test_who_keeps_servers_from_starting_is_named_and_can_be_ended(dsn: str) -> None:
    with restoring(dsn), psycopg.connect(dsn, autocommit=True) as conn:
        with pytest.raises(IllegalMove, match="sluice restore") as refused, starting(dsn):
            pass
        pid = re.search(r"SELECT pg_terminate_backend\((\d+)\)", str(refused.value))
        assert pid is not None
        query = "SELECT application_name FROM pg_stat_activity WHERE pid = %s"
        assert conn.execute(query, (int(pid[1]),)).fetchall() == [("sluice-restore",)]
        conn.execute(pid[0])
        assert eventually(lambda: conn.execute(query, (int(pid[1]),)).fetchall() == [], pause=0.01)
        with starting(dsn):
            pass


JOB = """
    INSERT INTO stream_job (job_id, name, statement, database, settings, tables, principal, state, starts)
    VALUES (gen_random_uuid(), %s, 'INSERT INTO t SELECT 1', 'default', '{}', '{}', 'ada', 'RUNNING', '{}')
"""


def states(dsn: str) -> dict[str, str]:
    with psycopg.connect(dsn) as conn:
        return dict(conn.execute("SELECT name, state FROM stream_job").fetchall())


def test_a_job_that_was_stopped_since_stays_stopped(shop: Server, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(shop.dsn) as conn:
        for name in ("asked", "failed", "finished", "gone", "runs", "stopped"):
            conn.execute(JOB, (name,))
    backup(of(shop.dsn), file := tmp_path / "b")
    with psycopg.connect(shop.dsn) as conn:
        conn.execute("UPDATE stream_job SET state = upper(name) WHERE name IN ('failed', 'finished', 'stopped')")
        conn.execute("UPDATE stream_job SET wish = 'STOP' WHERE name = 'asked'")
        conn.execute("DELETE FROM stream_job WHERE name = 'gone'")
    shop.close()
    summary, differences = restore(of(shop.dsn), file, replace=True)
    stopped = ["asked", "finished", "gone", "stopped"]
    assert states(shop.dsn) == {"failed": "RUNNING", "runs": "RUNNING"} | dict.fromkeys(stopped, "STOPPED")
    assert [(one.what.split()[1], one.statement.split()[0]) for one in differences] == [
        *((name, "ALTER") for name in stopped), ("failed", "STOP"),
    ]  # fmt: skip
    assert "2 jobs run again once a server starts: failed, runs" in summary
    summary, differences = restore(of(empty_dsn), file, replace=True)  # which is empty all the same
    assert "6 jobs run again" in summary
    assert not any("JOB" in one.statement for one in differences)
    assert set(states(empty_dsn).values()) == {"RUNNING"}


def test_no_job_stops_as_another_catalog_never_had_it(shop: Server, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(shop.dsn) as conn:
        conn.execute(JOB, ("runs",))
    backup(of(shop.dsn), file := tmp_path / "b")
    upgrade(empty_dsn)
    with psycopg.connect(empty_dsn) as conn:
        conn.execute(JOB, ("other",))
    summary, differences = restore(of(empty_dsn), file, replace=True)
    assert "1 jobs run again once a server starts: runs" in summary
    assert not any("JOB" in one.statement for one in differences)
    assert states(empty_dsn) == {"runs": "RUNNING"}


def test_a_catalog_that_cannot_be_brought_up_to_date_is_replaced(shop: Server, of: Of, dsn: str, tmp_path: Path) -> None:
    backup(of(dsn), file := tmp_path / "b")
    held = contents(dsn)
    shop.close()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '0004'")
    differences = restore(of(dsn), file, replace=True)[1]
    assert ["could not be brought up to date" in one.what for one in differences] == [True]
    assert "stands in the schema replaced_" in differences[0].what
    assert contents(dsn) == held
