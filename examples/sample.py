"""What docker-compose.yml runs beside the server: a little shop whose carts end by themselves.

    MONGODB_URI=mongodb://localhost:27017/ python examples/sample.py

The server's time is moved (--enable-test-commands), so nobody waits for an hour.
"""

import os

from pymongo import MongoClient

client = MongoClient(os.environ.get("MONGODB_URI", "mongodb://localhost:27017/"))
shop = client["shop"]
shop.drop_collection("carts")

# Carts end an hour after they were last touched. One says otherwise, another never ends.
shop.create_collection("carts", defaultTtl=3600)
shop["carts"].insert_many(
    [
        {"_id": "ann", "items": ["tea"]},
        {"_id": "ben", "items": ["milk"], "ttl": 60},
        {"_id": "cid", "items": ["salt"], "ttl": -1},
    ]
)


def carts():
    return sorted(cart["_id"] for cart in shop["carts"].find())


def wait(seconds):
    client.admin.command("timeTravel", 1, advanceSeconds=seconds)


print("now:               ", carts())
wait(60)
print("after a minute:    ", carts())
assert carts() == ["ann", "cid"]

wait(1800)
shop["carts"].update_one({"_id": "ann"}, {"$push": {"items": "bread"}})
wait(1800)
print("touched, an hour:  ", carts())
assert carts() == ["ann", "cid"]

wait(1800)
print("untouched, an hour:", carts())
assert carts() == ["cid"]

client.admin.command("timeTravel", 1, reset=True)
print("done")
