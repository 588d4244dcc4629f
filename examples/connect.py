from pymongo import MongoClient

shop = MongoClient("mongodb://localhost:27017/")["shop"]
shop.command("create", "wishes", defaultTtl=3600)
shop["wishes"].replace_one({"_id": "ann"}, {"items": ["tea"], "ttl": 60}, upsert=True)
print(shop["wishes"].find_one({"_id": "ann"}))
