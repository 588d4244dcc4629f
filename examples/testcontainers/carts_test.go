// A cart expires after an hour. The test does not wait: it moves the server's clock.
//
//	docker build -t sundown .
//	go get github.com/testcontainers/testcontainers-go go.mongodb.org/mongo-driver/v2
package carts

import (
	"context"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func start(t *testing.T) *mongo.Client {
	ctx := context.Background()
	sundown, err := testcontainers.Run(ctx, "sundown",
		testcontainers.WithCmd("--enable-test-commands"),
		testcontainers.WithExposedPorts("27017/tcp"),
		testcontainers.WithWaitStrategy(wait.ForLog("waiting for connections")))
	testcontainers.CleanupContainer(t, sundown)
	check(t, err)
	address, err := sundown.Endpoint(ctx, "mongodb")
	check(t, err)
	client, err := mongo.Connect(options.Client().ApplyURI(address))
	check(t, err)
	return client
}

func TestACartExpiresAfterAnHour(t *testing.T) {
	ctx := context.Background()
	client := start(t)
	defer client.Disconnect(ctx)
	run := func(database string, command bson.D) {
		t.Helper()
		check(t, client.Database(database).RunCommand(ctx, command).Err())
	}
	count := func() int64 {
		t.Helper()
		n, err := client.Database("shop").Collection("carts").CountDocuments(ctx, bson.D{})
		check(t, err)
		return n
	}

	run("shop", bson.D{{Key: "create", Value: "carts"}, {Key: "defaultTtl", Value: 3600}})
	run("admin", bson.D{{Key: "timeTravel", Value: 1}, {Key: "freeze", Value: true}})
	_, err := client.Database("shop").Collection("carts").InsertOne(ctx, bson.D{{Key: "_id", Value: "ann"}})
	check(t, err)

	run("admin", bson.D{{Key: "timeTravel", Value: 1}, {Key: "advanceSeconds", Value: 3599}})
	if n := count(); n != 1 {
		t.Fatalf("%d carts a second before the hour is over", n)
	}
	run("admin", bson.D{{Key: "timeTravel", Value: 1}, {Key: "advanceSeconds", Value: 1}})
	if n := count(); n != 0 {
		t.Fatalf("%d carts after an hour", n)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
