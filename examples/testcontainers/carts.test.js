// A cart expires after an hour. The test does not wait: it moves the server's clock.
//
//     docker build -t sundown .
//     npm install mongodb testcontainers
//     node --test examples/testcontainers/

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");
const { MongoClient } = require("mongodb");
const { GenericContainer, Wait } = require("testcontainers");

let sundown;
let client;

before(async () => {
  sundown = await new GenericContainer("sundown")
    .withCommand(["--enable-test-commands"])
    .withExposedPorts(27017)
    .withWaitStrategy(Wait.forLogMessage("waiting for connections"))
    .start();
  const address = `${sundown.getHost()}:${sundown.getMappedPort(27017)}`;
  client = await MongoClient.connect(`mongodb://${address}/`);
});

after(async () => {
  await client?.close();
  await sundown?.stop();
});

test("a cart expires after an hour", async () => {
  const travel = (where) => client.db("admin").command({ timeTravel: 1, ...where });
  const shop = client.db("shop");
  await shop.command({ create: "carts", defaultTtl: 3600 });
  const carts = shop.collection("carts");
  await travel({ freeze: true });
  await carts.insertOne({ _id: "ann", items: ["tea"] });

  await travel({ advanceSeconds: 3599 });
  assert.equal(await carts.countDocuments(), 1);
  await travel({ advanceSeconds: 1 });
  assert.equal(await carts.countDocuments(), 0);
});
