package scenario

import (
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/paxos/acceptor"
	"cqld/ring"
	"cqld/row"
)

// floor raises the low bound of ballots on nodes. The argument is a ballot's time, as the command paxos prints it. In a
// cluster, the metadata log raises it everywhere; here, nodes may have different bounds. For example, "floor 5
// node=(1,2)".
func (s *script) floor(d *datadriven.TestData) {
	micros, err := strconv.ParseInt(words(d)[0], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range s.among(d) {
		n.lowBound = time.Unix(1_000_000, 0).UnixMicro() + micros
	}
}

// among returns the nodes that node= names, or all.
func (s *script) among(d *datadriven.TestData) []*Node {
	if !d.HasArg("node") {
		return s.c.Nodes
	}
	var out []*Node
	for _, id := range list(d, "node") {
		i, err := strconv.Atoi(id)
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, s.c.Node(ring.NodeID(i)))
	}
	return out
}

// forget prints the unsettled partitions of nodes up to the low bound and, without look, makes the nodes forget the
// settled ones. For example, "1: unsettled [k1], forgotten 2".
func (s *script) forget(d *datadriven.TestData) {
	// A purge has two steps: the first finds what must be settled, the second forgets.
	steps := []bool{false, true}
	look := slices.Contains(words(d), "look")
	if look {
		steps = steps[:1]
	}
	for _, n := range s.among(d) {
		for _, forget := range steps {
			// Each step lists the keys again.
			var keys []string
			req := &acceptor.PurgeRequest{Epoch: n.Ring.Epoch(), Moved: n.Ring.Moved(), Table: s.c.Table.StorageID,
				Tokens: ring.FullRange(), LowBound: n.lowBound, Forget: forget}
			// The callback runs before Paxos returns (Node.startPaxos).
			n.purge.Paxos(n.ID, req, time.Second, func(step acceptor.PurgeStep, err error) {
				for _, k := range step.Unsettled {
					keys = append(keys, string(k.Bytes))
				}
				switch {
				case err != nil:
					s.c.printf("%d: %v", n.ID, err)
				case look:
					s.c.printf("%d: unsettled %v", n.ID, keys)
				case forget:
					s.c.printf("%d: unsettled %v, forgotten %d", n.ID, keys, step.Forgotten)
				}
			})
		}
	}
}

// settle makes all replicas vote on a partition, with a timeout of two seconds.
func (s *script) settle(d *datadriven.TestData) {
	done := s.begin("settle")
	key := row.NewPartitionKey([]byte(words(d)[0]))
	s.c.Node(ring.NodeID(number(d, "at", 1))).Proposer.SettleProposals(s.c.Table.StorageID, key, 2*time.Second,
		func(err error) {
			if err != nil {
				done(FormatError(err))
				return
			}
			done("ok")
		})
}
