package query

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cqld/cql"
	"cqld/ring"
	"cqld/schema"
)

// noMajority is a cluster that commits no change.
type noMajority struct{}

func (noMajority) ProposeSchema(ctx context.Context, _ schema.Change) error {
	<-ctx.Done()
	return ctx.Err()
}

// deadVoters is a cluster in which the majority of voters is dead.
type deadVoters struct{}

func (deadVoters) ProposeSchema(context.Context, schema.Change) error {
	return &schema.Unavailable{Required: 2, Alive: 1}
}

// TestDefinitionWithoutAMajority changes the schema without a majority: the answer arrives in time, and reports an unknown outcome.
func TestDefinitionWithoutAMajority(t *testing.T) {
	n := newOneNode()
	p := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), View: n, Changer: noMajority{}, Clock: &testClock{now: time.Unix(1700000000, 0)},
		Executor: over(nil), ClusterName: "Test Cluster", Timeouts: Timeouts{Schema: 20 * time.Millisecond}})
	stmt, err := cql.Parse("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.executeDefinition(at(ring.One), &Session{Version: 5}, stmt)
	var timeout *SchemaTimeout
	if !errors.As(err, &timeout) || !strings.Contains(err.Error(), "majority") || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("the error is: %v", err)
	}
	p.o.Changer = deadVoters{}
	_, err = p.executeDefinition(at(ring.One), &Session{Version: 5}, stmt)
	var unavailable *SchemaUnavailable
	if !errors.As(err, &unavailable) || *unavailable != (SchemaUnavailable{Required: 2, Alive: 1}) || !strings.Contains(err.Error(), "not changed") {
		t.Errorf("the error is: %v", err)
	}
}
