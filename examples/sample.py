"""A small shop whose carts expire by themselves. docker-compose.yml runs it beside the server.

    MONGODB_URI=mongodb://localhost:27017/ python examples/sample.py

It moves the server's clock (--enable-test-commands) instead of waiting for an hour.
"""

import os

from pymongo import MongoClient

client = MongoClient(os.environ.get("MONGODB_URI", "mongodb://localhost:27017/"))
shop = client["shop"]
shop.drop_collection("carts")

# Carts expire an hour after their last write. One expires earlier, one never.
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
