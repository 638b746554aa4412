package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cqld/ring"
	"cqld/ring/load"
)

// model is a ring with the load of each of many small cells of the token space, which no change of the ring divides
// unevenly.
type model struct {
	nodes  map[ring.NodeID]*ring.Node
	of     ring.Replication
	cells  []float64 // charge
	bytes  []float64
	epoch  uint64
	recent map[ring.Token]time.Duration
	former map[ring.Token]map[ring.NodeID]time.Duration // when a node lost a token
	now    time.Duration
	weight map[ring.NodeID]float64
	dead   ring.NodeID
}

func newModel(seed uint64, nodes, racks, tokens, cells int, s float64) *model {
	r := rand.New(rand.NewPCG(seed, 1))
	m := &model{nodes: map[ring.NodeID]*ring.Node{}, recent: map[ring.Token]time.Duration{},
		of: ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 3}), epoch: 1,
		former: map[ring.Token]map[ring.NodeID]time.Duration{}}
	for i := range nodes {
		n := &ring.Node{ID: ring.NodeID(i + 1), Datacenter: "a", Rack: fmt.Sprint(i % racks), State: ring.Normal}
		for range tokens {
			n.Tokens = append(n.Tokens, ring.Token(r.Uint64()))
		}
		slices.Sort(n.Tokens)
		m.nodes[n.ID] = n
	}
	zipf := rand.NewZipf(r, s, 64, uint64(cells-1))
	m.cells, m.bytes = make([]float64, cells), make([]float64, cells)
	place := r.Perm(cells)
	for range cells * 64 {
		m.cells[place[zipf.Uint64()]]++
	}
	for i := range m.bytes {
		m.bytes[i] = 1 << 20
	}
	return m
}

func (m *model) topology() *ring.Topology {
	var all []*ring.Node
	for _, n := range m.nodes {
		all = append(all, n)
	}
	return ring.NewTopology(m.epoch, all)
}

// measured returns what the nodes of the model would report. Each replica has all of the charge of its ranges.
func (m *model) measured(t *ring.Topology) load.Cluster {
	bounds, p := t.Bounds(), t.Placement(m.of)
	charge, bytes := make([]float64, len(bounds)), make([]float64, len(bounds))
	for i := range m.cells {
		tok := ring.Token(uint64(1)<<63 + uint64((float64(i)+0.5)/float64(len(m.cells))*(1<<63)*2))
		at, _ := slices.BinarySearch(bounds, tok)
		charge[at%len(bounds)] += m.cells[i]
		bytes[at%len(bounds)] += m.bytes[i]
	}
	reports := map[ring.NodeID]*load.Report{}
	for id := range m.nodes {
		reports[id] = &load.Report{}
	}
	for i, end := range bounds {
		for _, id := range p.Replicas(end).Natural {
			e := load.RangeReport{Tokens: ring.Range{Start: bounds[(i+len(bounds)-1)%len(bounds)], End: end}}
			e.SlowCharge, e.Bytes = charge[i], int64(bytes[i])
			reports[id].Ranges = append(reports[id].Ranges, e)
		}
	}
	return load.Combine(reports)
}

func (m *model) input() *Input {
	t := m.topology()
	alive := map[ring.NodeID]bool{}
	for id := range m.nodes {
		alive[id] = id != m.dead
	}
	return &Input{Topology: t, Replications: []ring.Replication{m.of}, Load: m.measured(t), Alive: alive,
		Recent: m.recent, Now: m.now, Weights: m.weight}
}

func (m *model) apply(t *testing.T, x ring.Transfer, rest time.Duration) {
	if at, ok := m.former[x.Token][x.To]; ok && m.now-at < rest {
		t.Fatalf("token %d returns to node %d after %s", x.Token, x.To, m.now-at)
	}
	edit := func(id ring.NodeID, change func([]ring.Token) []ring.Token) {
		n := *m.nodes[id]
		n.Tokens = change(slices.Clone(n.Tokens))
		slices.Sort(n.Tokens)
		m.nodes[id] = &n
	}
	if x.From != 0 {
		if !slices.Contains(m.nodes[x.From].Tokens, x.Token) {
			t.Fatalf("node %d does not own token %d", x.From, x.Token)
		}
		edit(x.From, func(ts []ring.Token) []ring.Token {
			return slices.DeleteFunc(ts, func(o ring.Token) bool { return o == x.Token })
		})
		if m.former[x.Token] == nil {
			m.former[x.Token] = map[ring.NodeID]time.Duration{}
		}
		m.former[x.Token][x.From] = m.now
	}
	edit(x.To, func(ts []ring.Token) []ring.Token { return append(ts, x.Token) })
	m.recent[x.Token] = m.now
	m.epoch++
}

// TestWalksSelectTheReplicasOfTheRing compares each set of the walker, at first and after changes, with the placement
// of package ring.
func TestWalksSelectTheReplicasOfTheRing(t *testing.T) {
	rules := []ring.Replication{{Class: ring.Simple, Factor: 2},
		ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 3}),
		ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 5})}
	for seed := range uint64(60) {
		m := newModel(seed, 3+int(seed%9), 1+int(seed%4), 9, 16, 1.2)
		for _, of := range rules {
			m.of = of
			for _, s := range planOf(m) {
				m.apply(t, s.Transfer, 0)
			}
			top := m.topology()
			w := newWalker(top, []ring.Replication{of})
			for i, tok := range w.tokens {
				set, _ := w.union(i)
				var ids []ring.NodeID
				for _, n := range set {
					ids = append(ids, w.nodes[n].ID)
				}
				if want := top.Placement(of).Replicas(tok).Natural; !slices.Equal(ids, want) {
					t.Fatalf("seed %d, %v: the replicas of %d are %v, want %v", seed, of, tok, ids, want)
				}
			}
		}
	}
}

func planOf(m *model) []Step {
	steps, _, _ := Plan(m.input(), DefaultOptions())
	return steps
}

// TestStepsChangeWhatTheyExpect applies plans of one step, and measures the nodes before and after it. Load is even
// within ranges, so that halves are halves.
func TestStepsChangeWhatTheyExpect(t *testing.T) {
	took := 0
	for seed := range uint64(20) {
		m := newModel(seed, 4+int(seed%8), 1+int(seed%3), 10, 1<<14, 1.2)
		for i := range m.cells {
			m.cells[i] = 8
		}
		in := m.input()
		opts := DefaultOptions()
		opts.StepsMax = 1
		steps, _, _ := Plan(in, opts)
		if len(steps) == 0 {
			continue
		}
		took++
		before := totals(in.Load)
		m.apply(t, steps[0].Transfer, 0)
		after := totals(m.measured(m.topology()))
		expected := map[ring.NodeID]Change{}
		for _, c := range steps[0].Changes {
			expected[c.Node] = c
		}
		for id := range m.nodes {
			got, want := after[id].charge-before[id].charge, expected[id].Charge
			// A range is divided between two cells.
			if d := got - want; d < -16 || d > 16 {
				t.Errorf("seed %d, %+v: node %d changes by a charge of %.0f, expected %.0f", seed,
					steps[0].Transfer, id, got, want)
			}
			if got := after[id].ranges - before[id].ranges; got != expected[id].Ranges {
				t.Errorf("seed %d, %+v: node %d gains %d ranges, expected %d", seed, steps[0].Transfer, id, got,
					expected[id].Ranges)
			}
		}
	}
	if took < 15 {
		t.Fatalf("only %d rings of 20 had a step", took)
	}
}

func totals(c load.Cluster) map[ring.NodeID]figures {
	out := map[ring.NodeID]figures{}
	for _, n := range c.Nodes {
		var f figures
		for _, r := range n.Ranges {
			f.plus(figures{r.SlowCharge, float64(r.Bytes), 1}, 1)
		}
		out[n.Node] = f
	}
	return out
}

// TestRingsBecomeEven plans every 20 s for ten minutes.
func TestRingsBecomeEven(t *testing.T) {
	for _, x := range []struct{ nodes, racks int }{{4, 1}, {16, 1}, {15, 3}, {100, 1}} {
		t.Run(fmt.Sprintf("%d nodes in %d racks", x.nodes, x.racks), func(t *testing.T) {
			m := newModel(7, x.nodes, x.racks, 16, 1<<15, 1.3)
			opts := DefaultOptions()
			first, moved, steps, least, slowest := 0.0, int64(0), 0, 0.0, time.Duration(0)
			for m.now = 0; m.now < 10*time.Minute; m.now += 20 * time.Second {
				in := m.input()
				start := time.Now()
				planned, _, shares := Plan(in, opts)
				slowest = max(slowest, time.Since(start))
				if m.now == 0 {
					for _, s := range shares {
						first = max(first, s.Deviation)
						least += max(0, float64(s.Bytes-s.WantBytes))
					}
				}
				for _, s := range planned {
					m.apply(t, s.Transfer, opts.Rest)
					moved, steps = moved+s.Bytes, steps+1
				}
			}
			last := newPlanner(m.input(), opts).worst()
			t.Logf("imbalance %.1f %% → %.1f %%, %d steps, %d MiB moved, %.0f MiB above the shares, slowest %s",
				first*100, last*100, steps, moved>>20, least/(1<<20), slowest)
			if last > opts.Threshold {
				t.Errorf("after ten minutes, a node is %.1f %% above its share", last*100)
			}
		})
	}
}

// TestNothingMovesToOrFromADeadNode lets a node die that has less than its share.
func TestNothingMovesToOrFromADeadNode(t *testing.T) {
	for id := range ring.NodeID(8) {
		m := newModel(3, 8, 1, 16, 1<<12, 1.3)
		m.dead = id + 1
		m.weight = map[ring.NodeID]float64{(id+1)%8 + 1: 0}
		for _, s := range planOf(m) {
			for _, c := range s.Changes {
				if c.Node == m.dead || c.Node == (id+1)%8+1 && c.Charge > 0 && s.Transfer.To == c.Node {
					t.Errorf("%+v changes node %d, which is dead or takes nothing", s.Transfer, c.Node)
				}
			}
		}
	}
}
