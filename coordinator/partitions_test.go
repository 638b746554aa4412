package coordinator_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
)

// listReplica is a node with some live partitions and some dead ones, which tells of a few at a time, late,
// or not at all.
type listReplica struct {
	*wildReplica
	keys  []string // sorted; dead ones end with a dash
	quiet int      // of 100 requests, so many fail or are never answered
}

func dead(key string) bool { return strings.HasSuffix(key, "-") }

func (l *listReplica) Partitions(
	_ uint64, q *coordinator.PartitionsRead, timeout time.Duration, done func(*coordinator.PartitionsPage, error),
) {
	page := &coordinator.PartitionsPage{}
	keys := slices.Clone(l.keys)
	if q.Reversed {
		slices.Reverse(keys)
	}
	most := 1 + rand.IntN(12)
	for _, key := range keys {
		if key < string(q.Span.From) || q.Span.To != nil && key >= string(q.Span.To) {
			continue
		}
		if page.More = page.Scanned == most || len(page.Keys) == q.Limit; page.More {
			break
		}
		page.Scanned, page.Last = page.Scanned+1, []byte(key)
		if !dead(key) {
			page.Keys = append(page.Keys, []byte(key))
		}
	}
	if rand.IntN(100) >= l.quiet {
		if rand.IntN(3) == 0 {
			done(page, nil)
			return
		}
		l.goroutines.Go(func() {
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			done(page, nil)
		})
		return
	}
	l.goroutines.Go(func() {
		if rand.IntN(2) == 0 {
			time.Sleep(timeout)
		}
		done(nil, coordinator.ErrNoReply)
	})
}

// TestListingHasWhatAQuorumHas lists partitions of which some live on a quorum of their replicas, some on
// fewer, some nowhere, from replicas that end anywhere and answer late or never. Some do not wait for all.
func TestListingHasWhatAQuorumHas(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		nodes := 1 + rng.IntN(6)
		factor := 1 + rng.IntN(min(nodes, 4))
		replicas := map[ring.NodeID]*listReplica{}
		wild := &wildReplica{}
		view := newFakeView(t, nodes, factor, func(id ring.NodeID) coordinator.Replica {
			replicas[id] = &listReplica{wildReplica: wild, quiet: rng.IntN(2) * 3}
			return replicas[id]
		})
		table := view.schema.Table("ks", "o")
		var acknowledged, anywhere []string
		for i := range rng.IntN(120) {
			key := fmt.Sprintf("%03d", rng.IntN(1000))
			if rng.IntN(3) == 0 {
				key += "-"
			}
			if slices.Contains(anywhere, key) {
				continue
			}
			anywhere = append(anywhere, key)
			natural := slices.Clone(view.topology.Placement(table.Replication).Replicas(row.NewPartitionKey([]byte(key)).Token).Natural)
			rng.Shuffle(len(natural), func(a, b int) { natural[a], natural[b] = natural[b], natural[a] })
			holders := rng.IntN(factor + 1)
			if i%2 == 0 {
				holders = max(holders, ring.QuorumOf(factor))
			}
			for _, id := range natural[:holders] {
				replicas[id].keys = append(replicas[id].keys, key)
			}
			if holders >= ring.QuorumOf(factor) && !dead(key) {
				acknowledged = append(acknowledged, key)
			}
		}
		for _, r := range replicas {
			slices.Sort(r.keys)
		}
		c := coordinator.New(coordinator.Options{View: view, Replicas: view, Clock: realClock{time.Now()}})
		var all sync.WaitGroup
		for range 8 {
			req := &coordinator.PartitionsRequest{
				Table: table, Limit: rng.IntN(30), Reversed: rng.IntN(2) == 0, Consistency: ring.Quorum, Timeout: 200 * time.Millisecond,
			}
			if rng.IntN(3) == 0 {
				req.Patience = time.Duration(1 + rng.IntN(2_000_000))
			}
			if rng.IntN(2) == 0 {
				req.Span.From = []byte(fmt.Sprintf("%03d", rng.IntN(1000)))
			}
			if rng.IntN(2) == 0 {
				req.Span.To = []byte(fmt.Sprintf("%03d", rng.IntN(1000)))
			}
			all.Add(1)
			c.Partitions(req, func(p *coordinator.Partitions, err error) {
				defer all.Done()
				if err == nil {
					checkListing(t, req, p, acknowledged, anywhere)
				} else if !strings.Contains(fmt.Sprintf("%T", err), "Read") {
					t.Errorf("an error that is none of a read: %T %v", err, err)
				}
			})
		}
		all.Wait()
		wild.goroutines.Wait()
	}
}

// TestListingOfTheDeadComesToAnEnd goes over partitions of which none lives, with no patience: an answer tells how
// far it came.
func TestListingOfTheDeadComesToAnEnd(t *testing.T) {
	wild := &wildReplica{}
	view := newFakeView(t, 3, 3, func(ring.NodeID) coordinator.Replica {
		l := &listReplica{wildReplica: wild}
		for i := range 100 {
			l.keys = append(l.keys, fmt.Sprintf("%03d-", i))
		}
		return l
	})
	c := coordinator.New(coordinator.Options{View: view, Replicas: view, Clock: realClock{time.Now()}})
	answers := 0
	for _, reversed := range []bool{false, true} {
		req := &coordinator.PartitionsRequest{
			Table: view.schema.Table("ks", "o"), Reversed: reversed, Consistency: ring.Quorum, Timeout: time.Minute, Patience: 1,
		}
		for more := true; more; answers++ {
			var p *coordinator.Partitions
			var err error
			var told sync.WaitGroup
			told.Add(1)
			c.Partitions(req, func(answer *coordinator.Partitions, failed error) {
				defer told.Done()
				p, err = answer, failed
			})
			told.Wait()
			if err != nil || len(p.Keys) > 0 || p.More != (p.Reached != nil) {
				t.Fatalf("%+v %v", p, err)
			}
			if more = p.More; more {
				at := string(p.Reached)
				if req.Span.From = []byte(at + "\x00"); reversed {
					req.Span.From, req.Span.To = nil, []byte(at)
				}
			}
		}
	}
	wild.goroutines.Wait()
	if answers < 6 || answers > 202 {
		t.Errorf("%d answers", answers)
	}
}

func checkListing(t *testing.T, req *coordinator.PartitionsRequest, p *coordinator.Partitions, acknowledged, anywhere []string) {
	compare := bytes.Compare
	if req.Reversed {
		compare = func(a, b []byte) int { return bytes.Compare(b, a) }
	}
	listed := map[string]bool{}
	for i, key := range p.Keys {
		if i > 0 && compare(p.Keys[i-1], key) >= 0 {
			t.Errorf("%q comes before %q", p.Keys[i-1], key)
		}
		if bytes.Compare(key, req.Span.From) < 0 || req.Span.To != nil && bytes.Compare(key, req.Span.To) >= 0 {
			t.Errorf("%q is outside of %q", key, req.Span)
		}
		if !slices.Contains(anywhere, string(key)) || dead(string(key)) {
			t.Errorf("nobody told of %q", key)
		}
		listed[string(key)] = true
	}
	if req.Limit > 0 && (len(p.Keys) > req.Limit || p.More && len(p.Keys) < req.Limit && req.Patience == 0) {
		t.Errorf("%d keys of %d, more %v", len(p.Keys), req.Limit, p.More)
	}
	switch n := len(p.Keys); {
	case p.More != (p.Reached != nil):
		t.Errorf("more %v, reached %q", p.More, p.Reached)
	case p.More && n > 0 && compare(p.Reached, p.Keys[n-1]) < 0:
		t.Errorf("%q was reached, behind %q", p.Reached, p.Keys)
	}
	for _, key := range acknowledged {
		inside := key >= string(req.Span.From) && (req.Span.To == nil || key < string(req.Span.To))
		covered := !p.More || compare([]byte(key), p.Reached) <= 0
		if inside && covered && !listed[key] {
			t.Errorf("%q is missing: %q of %+v", key, p.Keys, req.Span)
		}
	}
}
