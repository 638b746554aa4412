package backups

import (
	"time"

	"cqld/ring"
	"cqld/schema"
)

// nodeRate is how many bytes per second a node compares or restores without a lower limit, on a core that it shares
// with other work (ADR 49 has measurements).
const nodeRate = 100 << 20

// estimate sets how much the nodes read and how long that takes. s is the schema after the restoration. For example, a
// backup of 30 GiB of a ring of three, with three replicas, restored to a ring of three: each node compares 10 GiB, and
// then reads the ranges that it replicates, which are all, from all former replicas: 30 GiB.
func (n *Node) estimate(p *Planned, s *schema.Schema, t *ring.Topology) {
	nodes := float64(len(t.Nodes()))
	// The files do not show which table needs which part of them, so all tables count alike.
	var replicas float64
	for _, target := range p.Targets {
		r := s.Keyspace(target.Into).Replication
		each := min(float64(r.Total()), nodes)
		if r.Class == ring.Everywhere {
			each = nodes
		}
		replicas += each / float64(len(p.Targets))
	}
	files, _ := p.Manifest.Bytes()
	p.NodeBytes = int64(float64(p.Bytes)/nodes + float64(files)*replicas/nodes)
	// Each node replays the whole log of each former node.
	if p.at != nil {
		p.NodeBytes += p.at.bytes()
	}
	p.Rate = min(n.o.Rate, nodeRate)
	p.Estimate = time.Duration(float64(p.NodeBytes) / float64(p.Rate) * float64(time.Second))
}
