// A cart expires after an hour. The test does not wait: it moves the server's clock.
//
// Build the image first: docker build -t sundown .
// Dependencies: org.testcontainers:testcontainers, org.mongodb:mongodb-driver-sync, org.junit.jupiter:junit-jupiter

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import org.bson.Document;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;

class CartsTest {
    static final GenericContainer<?> sundown = new GenericContainer<>("sundown")
        .withCommand("--enable-test-commands")
        .withExposedPorts(27017)
        .waitingFor(Wait.forLogMessage(".*waiting for connections.*", 1));
    static MongoClient client;

    @BeforeAll
    static void start() {
        sundown.start();
        client = MongoClients.create("mongodb://" + sundown.getHost() + ":" + sundown.getMappedPort(27017) + "/");
    }

    @AfterAll
    static void stop() {
        client.close();
        sundown.stop();
    }

    @Test
    void aCartExpiresAfterAnHour() {
        var shop = client.getDatabase("shop");
        shop.runCommand(new Document("create", "carts").append("defaultTtl", 3600));
        var carts = shop.getCollection("carts");
        travel("freeze", true);
        carts.insertOne(new Document("_id", "ann"));

        travel("advanceSeconds", 3599);
        assertEquals(1, carts.countDocuments());
        travel("advanceSeconds", 1);
        assertEquals(0, carts.countDocuments());
    }

    static void travel(String how, Object value) {
        client.getDatabase("admin").runCommand(new Document("timeTravel", 1).append(how, value));
    }
}
