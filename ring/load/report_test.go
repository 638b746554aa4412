package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cqld/ring"
)

// TestQuantitiesAreNearTheTruth checks the error of codes, their order and their length.
func TestQuantitiesAreNearTheTruth(t *testing.T) {
	var all []uint64
	for e := range 62 {
		for _, d := range []uint64{0, 1, 1 << e / 3, 1 << e / 2, 1<<e - 1} {
			all = append(all, 1<<e+min(d, 1<<e-1))
		}
	}
	slices.Sort(all)
	before := uint64(0)
	for _, x := range all {
		code := encodeQuantity(x)
		back := decodeQuantity(code)
		if math.Abs(float64(back)-float64(x)) > float64(x)/32 || code < before || code >= 1<<14 {
			t.Errorf("%d has the code %d of %d, after the code %d", x, code, back, before)
		}
		if x < 32 && back != x {
			t.Errorf("%d is decoded as %d", x, back)
		}
		before = code
	}
	if got := decodeQuantity(math.MaxUint64); got != quantityMax {
		t.Errorf("an invalid code is %d", got)
	}
}

// drawMeter returns a meter with a random load on bounds.
func drawMeter(r *rand.Rand, bounds []ring.Token) *Meter {
	m, clock := newTestMeter(bounds)
	bytes := map[ring.Range]int64{}
	for _, x := range m.Held() {
		bytes[x] = r.Int64N(1 << (1 + r.IntN(40)))
	}
	m.SetBytes(bytes)
	beats(m, clock, 3, func() {
		for range 500 {
			key := fmt.Appendf(nil, "key %d", int(math.Exp(r.Float64()*8)))
			if tok := ring.Murmur3(key); r.IntN(2) == 0 {
				m.Read(5, tok, key, r.IntN(1000))
			} else {
				m.Write(6, tok, key, r.IntN(1000))
			}
		}
	})
	return m
}

// TestReportsAreReadAsTheyWereWritten compares received reports with the snapshots of their senders.
func TestReportsAreReadAsTheyWereWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	near := func(got, want, step float64) bool { return math.Abs(got-want) <= want/32+step }
	for range 50 {
		m := drawMeter(r, drawBounds(r, 1+r.IntN(200)))
		s, l := m.snapshot()
		b := m.AppendReport(nil, 3)
		got, err := decodeReport(b, l, entriesMax)
		if err != nil || len(got.Ranges) != len(s.Ranges) || got.Held != len(s.Ranges) {
			t.Fatalf("%d of %d ranges, %v", len(got.Ranges), len(s.Ranges), err)
		}
		for i, x := range got.Ranges {
			y := s.Ranges[i]
			if x.Tokens != y.Tokens || !near(float64(x.Bytes), float64(y.Bytes), 0) ||
				!near(x.Reads, y.Fast.Reads, 1.0/32) || !near(x.Writes, y.Fast.Writes, 1.0/32) ||
				!near(x.Charge, y.Fast.Charge(), 1.0/32) || !near(x.SlowCharge, y.Slow.Charge(), 1.0/32) {
				t.Fatalf("%+v is received as %+v", y, x)
			}
			want := HotKey{}
			if y.Hottest != nil {
				want = HotKey{y.Hottest.Table, y.Hottest.Token, min(1, y.Hottest.Charge/y.Fast.Charge())}
			}
			if h := x.Hottest; h.Table != want.Table || h.Token != want.Token || math.Abs(h.Share-want.Share) > 0.002 {
				t.Fatalf("the hottest key %+v is received as %+v", want, h)
			}
		}
		if x, y := got.Sum, s.Sum; !near(float64(x.Bytes), float64(y.Bytes), 0) || !near(x.Reads, y.Fast.Reads, 0.04) ||
			!near(x.BytesOut, y.Fast.BytesOut, 0.04) || !near(x.BytesIn, y.Fast.BytesIn, 0.04) {
			t.Fatalf("the sum %+v is received as %+v", y, x)
		}
		// What is appended later than this build knows is ignored, and a node with another ring reads the sum.
		other, _ := newTestMeter(drawBounds(r, 10))
		foreign, err := decodeReport(append(slices.Clone(b), 1, 2, 3), other.layout.Load(), entriesMax)
		if err != nil || foreign.Sum != got.Sum || foreign.Ranges != nil || foreign.Held != got.Held {
			t.Fatalf("another ring reads %+v, %v", foreign, err)
		}
		for n := range b {
			if _, err := decodeReport(b[:n], l, entriesMax); err == nil {
				t.Fatalf("%d of %d bytes of a report are accepted", n, len(b))
			}
		}
	}
}

// TestReportsAreSmall checks the bytes for each range, and the bound for a node with many.
func TestReportsAreSmall(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	m := drawMeter(r, drawBounds(r, 64))
	if n := len(m.AppendReport(nil, 4)); n > 64*12 {
		t.Errorf("64 ranges take %d bytes", n)
	}
	m = drawMeter(r, drawBounds(r, 5000))
	for _, members := range []int{1, 1000, 10_000} {
		b := m.AppendReport(nil, members)
		most := entriesFor(members)
		got, err := decodeReport(b, m.layout.Load(), most)
		if err != nil || len(got.Ranges) != most || got.Held < 4990 || len(b) > reportBytesMax {
			t.Fatalf("%d members: %d bytes, %d ranges of %d, %v", members, len(b), len(got.Ranges), got.Held, err)
		}
		if most*members > entriesTotal {
			t.Errorf("%d members: %d ranges in all", members, most*members)
		}
		// The range with the most charge and the one with the most bytes are among them.
		s := m.Snapshot()
		for _, less := range []func(a, b Range) bool{
			func(a, b Range) bool { return a.Fast.Charge() < b.Fast.Charge() },
			func(a, b Range) bool { return a.Bytes < b.Bytes },
		} {
			most := s.Ranges[0]
			for _, x := range s.Ranges {
				if less(most, x) {
					most = x
				}
			}
			if !slices.ContainsFunc(got.Ranges, func(x RangeReport) bool { return x.Tokens == most.Tokens }) {
				t.Errorf("%d members: %+v is missing", members, most)
			}
		}
	}
}

// TestReportsAreExchanged has three nodes exchange reports over time: each knows the load of all, forgets one that is
// silent or no longer a member, and ignores malformed reports and reports of strangers.
func TestReportsAreExchanged(t *testing.T) {
	bounds := []ring.Token{-1000, 0, 1000}
	members := []*ring.Node{{ID: 1}, {ID: 2}, {ID: 3}}
	type node struct {
		*Meter
		*Reports
	}
	m1, clock := newTestMeter(bounds)
	nodes := []node{{m1, NewReports(m1, clock)}}
	for range 2 {
		m := New(Options{Clock: clock})
		m.SetRing(bounds, everyRange)
		nodes = append(nodes, node{m, NewReports(m, clock)})
	}
	for _, n := range nodes {
		n.Retain(members)
	}
	if nodes[0].Last() != nil {
		t.Error("a node has a report before its first heartbeat")
	}
	silent, reports := 0, 0
	step := func() {
		for i, n := range nodes {
			for range 40 * i {
				n.Write(9, ring.Token(500*i), []byte("x"), 1024)
			}
		}
		for range 4 { // heartbeats in a second
			clock.Advance(250 * time.Millisecond)
			for i, n := range nodes {
				b := n.Reports.Beat()
				if b == nil || i+1 == silent {
					continue
				}
				reports++
				for j := range nodes {
					if j != i {
						nodes[j].Receive(ring.NodeID(i+1), b)
					}
				}
			}
		}
	}
	for range 10 {
		step()
	}
	if reports != 3*5 {
		t.Errorf("%d reports in 10 s, want one per node and 2 s", reports)
	}
	c := Combine(nodes[0].All(1))
	if len(c.Nodes) != 3 || len(c.Ranges) != 3 || math.Abs(c.Nodes[2].Share-2.0/3) > 0.05 || c.Nodes[0].Share != 0 {
		t.Fatalf("combined: %+v", c)
	}
	hot := c.Ranges[2]
	if hot.Tokens != (ring.Range{Start: 0, End: 1000}) || len(hot.Nodes) != 3 || hot.Busiest != 3 ||
		math.Abs(hot.Writes-120) > 5 || hot.Hottest.Token != 1000 || hot.Hottest.Table != 9 {
		t.Errorf("the hottest range is %+v", hot)
	}
	if charge, bytes := c.Imbalance(); math.Abs(charge-1) > 0.1 || bytes != 0 {
		t.Errorf("imbalance %v by charge, %v by bytes", charge, bytes)
	}
	// A change of the ring is reported at once. A node that has not applied it knows the sums of the others only, and
	// their ranges as soon as it has.
	changed := append(bounds, 2000)
	for i := range nodes[:2] {
		nodes[i].SetRing(changed, everyRange)
		nodes[i].Retain(members)
	}
	reports = 0
	for i, n := range nodes {
		if b := n.Reports.Beat(); b != nil {
			reports++
			nodes[2].Receive(ring.NodeID(i+1), b)
			nodes[0].Receive(ring.NodeID(i+1), b)
		}
	}
	if late := Combine(nodes[2].All(3)); reports < 2 || len(late.Nodes) != 3 || len(late.Ranges) != 3 {
		t.Errorf("%d reports after a change; with the former ring: %+v", reports, late)
	}
	nodes[2].SetRing(changed, everyRange)
	if late := Combine(nodes[2].All(3)); len(late.Ranges) != 4 || len(late.Ranges[3].Nodes) != 3 {
		t.Errorf("with the new ring: %+v", late)
	}
	nodes[2].Retain(members)
	silent = 3
	for range 12 {
		step()
	}
	if all := nodes[0].All(1); len(all) != 2 || all[3] != nil {
		t.Errorf("after 12 s of silence, the reports of %d nodes count", len(all))
	}
	nodes[0].Retain(members[:2])
	nodes[0].Receive(3, nodes[2].Last())
	nodes[0].Receive(2, []byte{format, 1})
	nodes[0].Receive(2, append([]byte{format + 1}, nodes[1].Last()[1:]...))
	nodes[0].Receive(2, make([]byte, reportBytesMax+1))
	if n := nodes[0].Refused(); n != 4 {
		t.Errorf("%d reports are refused", n)
	}
	if all := nodes[0].All(1); all[2] == nil || all[2].Sum.Writes < 30 {
		t.Errorf("a malformed report replaced the last one: %+v", all[2])
	}
}

// FuzzDecodeReport checks that no report makes a node fail, and that the ranges of a decoded one are in order.
func FuzzDecodeReport(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 3))
	m := drawMeter(r, drawBounds(r, 20))
	l := m.layout.Load()
	f.Add(m.AppendReport(nil, 1))
	f.Add(m.AppendReport(nil, 1)[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeReport(b, l, 16)
		if err != nil {
			return
		}
		if len(got.Ranges) > 16 {
			t.Errorf("%d ranges", len(got.Ranges))
		}
		for i, x := range got.Ranges {
			if x.Bytes < 0 || x.Charge < 0 || i > 0 && x.Tokens.End <= got.Ranges[i-1].Tokens.End {
				t.Errorf("range %d is %+v", i, x)
			}
		}
	})
}
