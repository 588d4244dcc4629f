import { MongoClient } from "mongodb";

const client = await MongoClient.connect("mongodb://localhost:27017/");
const baskets = await client.db("shop").createCollection("baskets", { defaultTtl: 3600 });
await baskets.replaceOne({ _id: "ben" }, { items: ["milk"], ttl: 60 }, { upsert: true });
console.log(await baskets.findOne({ _id: "ben" }));
await client.close();
