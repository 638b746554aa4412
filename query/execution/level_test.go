package execution

import (
	"testing"

	"cqld/ring"
	"cqld/schema"
)

func TestOneNodeAnswersForBothReplicasOfTraces(t *testing.T) {
	traces, other := &schema.Table{Keyspace: "system_traces"}, &schema.Table{Keyspace: "ks"}
	for _, c := range []struct {
		table       *schema.Table
		level, want ring.Consistency
		nodes       int
	}{
		{traces, ring.Quorum, ring.One, 1}, {traces, ring.All, ring.One, 1}, {traces, ring.Serial, ring.Serial, 1},
		{traces, ring.Quorum, ring.Quorum, 2}, {other, ring.Quorum, ring.Quorum, 1},
	} {
		if got := ReadLevel(c.table, c.level, c.nodes); got != c.want {
			t.Errorf("%s of %s in a ring of %d is read at %s, want %s", c.level, c.table.Keyspace, c.nodes, got, c.want)
		}
	}
}
