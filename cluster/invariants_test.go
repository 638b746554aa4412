package cluster

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/cluster/metadata"
	"cqld/internal/invariant/invarianttest"
)

// TestInvariantsFire breaks the invariants of the parts of a cluster, each as a bug in its caller would.
func TestInvariantsFire(t *testing.T) {
	for name, breaks := range map[string]func(c *Cluster){
		"entry skipped":  func(c *Cluster) { _ = c.driver.apply(forgedEntry(forgedIndex+2, 2, pb.EntryNormal, nil)) },
		"entry repeated": func(c *Cluster) { _ = c.driver.apply(forgedEntry(forgedIndex, 2, pb.EntryNormal, nil)) },
		"old snapshot": func(c *Cluster) {
			_ = c.driver.install(&pb.Snapshot{Data: must(c.Metadata().Encode()),
				Metadata: &pb.SnapshotMetadata{Index: proto.Uint64(forgedIndex)}})
		},
		"snapshot ahead": func(c *Cluster) {
			c.driver.snapshot = forgedIndex + 1
			_ = c.driver.compact()
		},
		"epoch goes back":     func(c *Cluster) { c.publish(metadata.Empty()) },
		"tick without time":   func(c *Cluster) { c.loop.advance(0) },
		"decided too early":   func(c *Cluster) { c.proposals.resolve(metadata.CommandID{1}, forgedIndex+1, nil) },
		"decided at no index": func(c *Cluster) { c.proposals.resolve(metadata.CommandID{1}, 0, nil) },
		"answered too early": func(c *Cluster) {
			for _, n := range c.Metadata().Topology.Nodes() {
				c.progress.applied[n.ID] = forgedIndex + 1
			}
			c.proposals.open[metadata.CommandID{1}] = &proposal{index: forgedIndex + 1, done: func(error) {}}
			c.proposals.complete()
		},
		"change of no node": func(*Cluster) {
			checkChanges([]*pb.ConfChangeSingle{confChange(pb.ConfChangeAddNode, 0)})
		},
		"node changed twice": func(*Cluster) {
			checkChanges([]*pb.ConfChangeSingle{confChange(pb.ConfChangeAddNode, 2),
				confChange(pb.ConfChangeRemoveNode, 2)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := forgedVoter(t)
			invarianttest.Fires(t, func() { breaks(c) }, "")
		})
	}
}
