package query

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/schema"
	"cqld/schema/refused"
)

// noMajority is a cluster that commits no change.
type noMajority struct{}

func (noMajority) ProposeSchema(ctx context.Context, _ schema.Change) error {
	<-ctx.Done()
	return ctx.Err()
}

func (noMajority) AwaitSchema(context.Context) error { return nil }

// deadVoters is a cluster in which the majority of voters is dead.
type deadVoters struct{}

func (deadVoters) ProposeSchema(context.Context, schema.Change) error {
	return &refused.Unavailable{Required: 2, Alive: 1}
}

func (deadVoters) AwaitSchema(context.Context) error { return nil }

// TestDefinitionWithoutAMajority changes the schema without a majority: the answer arrives in time, and reports an
// unknown outcome.
func TestDefinitionWithoutAMajority(t *testing.T) {
	n := newOneNode()
	p := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), View: n, Changer: noMajority{},
		Clock:    &testClock{now: time.Unix(1700000000, 0)},
		Executor: over(nil), ClusterName: "Test Cluster", Timeouts: Timeouts{Schema: 20 * time.Millisecond}})
	stmt, err := cql.Parse("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.executeDefinition(at(ring.One), &Session{Version: 5}, stmt)
	var timeout *invalid.SchemaTimeout
	if !errors.As(err, &timeout) || !strings.Contains(err.Error(), "majority") ||
		!strings.Contains(err.Error(), "unknown") {
		t.Errorf("the error is: %v", err)
	}
	p.o.Changer = deadVoters{}
	_, err = p.executeDefinition(at(ring.One), &Session{Version: 5}, stmt)
	var unavailable *invalid.SchemaUnavailable
	if !errors.As(err, &unavailable) || *unavailable != (invalid.SchemaUnavailable{Required: 2, Alive: 1}) ||
		!strings.Contains(err.Error(), "not changed") {
		t.Errorf("the error is: %v", err)
	}
}

// lateNodes is a cluster in which live nodes lack the last changes.
type lateNodes struct{ *oneNode }

func (lateNodes) AwaitSchema(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestDefinitionsOfWhatExistsAwaitTheOthers repeats definitions while other nodes lack the defined elements: a client
// that gets the answer may read them from any node.
func TestDefinitionsOfWhatExistsAwaitTheOthers(t *testing.T) {
	p, s := newTestProcessor(t, nil, "CREATE TABLE t (k int PRIMARY KEY)", "CREATE TYPE u (a int)")
	p.o.Changer, p.services.Timeouts.Schema = lateNodes{p.o.Changer.(*oneNode)}, 5*time.Millisecond
	for _, text := range []string{
		"CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)", "CREATE TABLE t (k int PRIMARY KEY)",
		"CREATE TYPE IF NOT EXISTS u (a int)", "DROP TABLE IF EXISTS gone",
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
	} {
		_, err := p.Query(at(ring.One), s, text, &Params{})
		if timeout := (*invalid.SchemaTimeout)(nil); !errors.As(err, &timeout) {
			t.Errorf("%s is answered with %v", text, err)
		}
	}
	var refused *invalid.Error
	if _, err := p.Query(at(ring.One), s, "ALTER TABLE gone ADD v int", &Params{}); !errors.As(err, &refused) {
		t.Errorf("a change of a table that never existed is answered with %v", err)
	}
}
