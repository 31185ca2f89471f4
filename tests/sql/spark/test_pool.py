"""Where the driver can be reached, by the master it is given; no Spark is started."""

from __future__ import annotations

import pytest

from sql.spark.settings import SparkSettings, driver_address


@pytest.mark.parametrize(
    "master",
    [
        "local[*]",
        "local",
        "local-cluster[2,1,1024]",
        "spark://127.0.0.1:7077",
        "spark://localhost:7077,127.0.0.2:7077",
        "spark://[::1]:7077",
    ],
)
def test_a_master_on_this_machine_reaches_the_driver_over_loopback(master: str) -> None:
    assert driver_address(SparkSettings(master=master)) == {"spark.driver.host": "127.0.0.1"}


@pytest.mark.parametrize(
    "master", ["spark://spark-master:7077", "spark://127.0.0.1:7077,10.0.0.7:7077", "yarn", "k8s://https://127.0.0.1:6443"]
)
def test_any_other_master_leaves_the_address_to_spark(master: str) -> None:
    assert driver_address(SparkSettings(master=master)) == {}


def test_a_named_address_is_told_to_executors_and_every_interface_listens() -> None:
    given = SparkSettings(master="spark://spark-master:7077", driver_host="gateway-1")
    assert driver_address(given) == {"spark.driver.host": "gateway-1", "spark.driver.bindAddress": "0.0.0.0"}
