"""docs/configuration.md: task files, tasks in ZooKeeper, lineage, keys and named sources."""

from __future__ import annotations

import json

import pytest

from tests.integration.docs.conftest import PageReader
from tests.integration.docs.reading import until_said
from tests.support.changes.shop import Shop
from tests.support.processes.bus import fetch_text, load_text

pytestmark = pytest.mark.integration


def test_configuration(read: PageReader, shop: Shop) -> None:
    at, name = shop.addresses, shop.name
    shop.create("orders", "id INT PRIMARY KEY")
    task_id = f"{name}-1084"
    own = {
        r"FILE\.\.\.": "tasks/fetch.properties tasks/load.properties",
        r"\b1084\b": task_id,
        r"//db1/": f"//{at.mariadb.host}:{at.mariadb.port}/",
        "/etc/cdcbus.key": str(shop.folder / "cdcbus.key"),
    }
    with read("docs/configuration.md", **own) as page:
        names = {"consumer.includes": f"{name}.orders"}
        page.write(
            "tasks/fetch.properties", fetch_text(f"{name}-0", at.source, at.kafka, name, **names)
        )
        page.write("tasks/load.properties", load_text(task_id, at, name, **names))
        page.run("cdcbus task check FILE...")
        with page.begin("cdcbus task run FILE", FILE="tasks/fetch.properties") as said:
            until_said(said, "reads the binlog")

        page.run("cdcbus task import FILE...")
        page.run("cdcbus task check 1084")
        with page.begin("cdcbus task run 1084") as said:
            until_said(said, f"{task_id} reads ")
        page.run("cdcbus task export 1084 --output FILE", FILE="exported.properties")
        exported = (page.folder / "exported.properties").read_text(encoding="utf-8")
        assert f"taskId={task_id}\n" in exported
        stored, _ = shop.zookeeper.get(f"/{name}/datas/task/{task_id}/dist/{name}")
        page.write("porter.json", stored.decode())
        page.run("cdcbus task import FILE.json --output", FILE="porter")
        assert f"taskId={task_id}\n" in (page.folder / "porter.properties").read_text("utf-8")

        assert f"{name}.orders" in page.type("cdcbus lineage").lower()
        for command in ("cdcbus lineage orders", "cdcbus lineage shop.orders"):
            assert f"{name}.orders" in page.run(command).lower()

        page.run("(umask 077; openssl rand -base64 32")
        page.run("echo 'secret.keyFile=")
        page.environ["SHOP_PASSWORD"] = at.mariadb.password
        page.run("cdcbus source add 76DCDB url=")
        assert page.run("cdcbus source list").startswith("76DCDB")
        assert at.mariadb.password not in page.run("cdcbus source show 76DCDB")
        page.run("cdcbus source test 76DCDB")
        page.run("cdcbus source add 76DCDB --file")
        assert (page.folder / "sources" / "76DCDB.properties").stat().st_mode & 0o777 == 0o600
        page.type("cdcbus source add inline url=jdbc:mysql://db1/shop userName=cdc password=s3cret")
        assert "s3cret" not in str(shop.zookeeper.get(f"/{name}/datas/datesource/inline"))

        shown = json.loads(page.run("cdcbus offset show ID", ID=f"{task_id} --json"))
        assert shown
        assert "secret.keyFile" in page.run("cdcbus config show")
