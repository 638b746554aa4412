package coordinator_test

import (
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
)

// floor makes nodes hear of a floor: a ballot's time, as the story shows it.
func (s *scenario) floor(d *datadriven.TestData) {
	micros, err := strconv.ParseInt(words(d)[0], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range s.among(d) {
		n.floor = time.Unix(1_000_000, 0).UnixMicro() + micros
	}
}

// among are the nodes that an argument names; without it all of them.
func (s *scenario) among(d *datadriven.TestData) []*node {
	if !d.HasArg("node") {
		return s.c.nodes
	}
	var out []*node
	for _, id := range list(d, "node") {
		i, err := strconv.Atoi(id)
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, s.c.node(ring.NodeID(i)))
	}
	return out
}

// forget lists what nodes have unsettled up to the floor, and, unless it is only a look, makes them forget the rest up
// to there.
func (s *scenario) forget(d *datadriven.TestData) {
	steps := []bool{false, true}
	look := slices.Contains(words(d), "look")
	if look {
		steps = steps[:1]
	}
	for _, n := range s.among(d) {
		var keys []string
		for _, forget := range steps {
			req := &paxos.PurgeRequest{Epoch: n.topology.Epoch(), Moved: n.topology.Moved(), Table: s.c.table.StorageID,
				Tokens: ring.FullRange(), LowBound: n.floor, Forget: forget}
			n.purge.Paxos(n.id, req, time.Second, func(step paxos.PurgeStep, err error) {
				for _, k := range step.Unsettled {
					keys = append(keys, string(k.Bytes))
				}
				switch {
				case err != nil:
					s.c.printf("%d: %v", n.id, err)
				case look:
					s.c.printf("%d: unsettled %v", n.id, keys)
				case forget:
					s.c.printf("%d: unsettled %v, forgotten %d", n.id, keys, step.Forgotten)
				}
			})
		}
	}
}

// settle has all replicas vote on a partition.
func (s *scenario) settle(d *datadriven.TestData) {
	done := s.begin("settle")
	key := row.NewPartitionKey([]byte(words(d)[0]))
	s.c.node(ring.NodeID(number(d, "at", 1))).proposer.SettleProposals(s.c.table.StorageID, key, 2*time.Second, func(err error) {
		if err != nil {
			done(errorText(err))
			return
		}
		done("ok")
	})
}
