"""A cart expires after an hour. The test does not wait: it moves the server's clock.

    docker build -t sundown .
    pip install pytest pymongo testcontainers
    pytest examples/testcontainers/test_carts.py
"""

import pytest
from pymongo import MongoClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy


@pytest.fixture(scope="session")
def client():
    sundown = (
        DockerContainer("sundown")
        .with_command("--enable-test-commands")
        .with_exposed_ports(27017)
        .waiting_for(LogMessageWaitStrategy("waiting for connections"))
    )
    with sundown:
        host, port = sundown.get_container_host_ip(), sundown.get_exposed_port(27017)
        with MongoClient(host, int(port)) as client:
            yield client


def test_a_cart_expires_after_an_hour(client):
    carts = client["shop"].create_collection("carts", defaultTtl=3600)
    client.admin.command("timeTravel", 1, freeze=True)
    carts.insert_one({"_id": "ann", "items": ["tea"]})

    client.admin.command("timeTravel", 1, advanceSeconds=3599)
    assert carts.count_documents({}) == 1
    client.admin.command("timeTravel", 1, advanceSeconds=1)
    assert carts.count_documents({}) == 0
