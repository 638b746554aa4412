package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"cqld/node/config"
)

// A member that is restarted with another cluster name, data center, rack or number of tokens does not start, and says
// why. The messages equal Cassandra 5.0.9's. With the previous values, it starts again and has lost nothing.
func TestMembersKeepTheirPlace(t *testing.T) {
	r := openNodes(t, 77, 2, nil)
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
	node := r.nodes[1]
	r.killed = map[*Node]bool{node: true}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := node.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*config.Options){
		"saved cluster name cqld != configured name other": func(o *config.Options) { o.ClusterName = "other" },
		"cannot start node if its data center (dc9) differs from previous data center " +
			"(datacenter1)": func(o *config.Options) { o.Datacenter = "dc9" },
		"cannot start node if its rack (rack9) differs from previous rack " +
			"(rack1)": func(o *config.Options) { o.Rack = "rack9" },
		"cannot change the number of tokens from 8 to 16: set num_tokens: 8, or decommission this node and let " +
			"": func(o *config.Options) { o.Join.NumTokens = 16 },
	} {
		o := node.opts
		change(&o)
		started, err := open(ctx, o, node.faults)
		if err == nil {
			t.Errorf("the node starts, want %s", want)
			err = started.Close(ctx)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	again, err := open(ctx, node.opts, node.faults)
	if err != nil {
		t.Fatal(err)
	}
	r.nodes[1] = again
	t.Cleanup(func() { _ = again.Close(context.Background()) })
	if got := r.query(r.connect(1), "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = "+
		"'k'"); len(got.Rows) != 1 {
		t.Errorf("%d rows", len(got.Rows))
	}
}
