//go:build integration && linux

package integration

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cqld/integration/netns"
	"cqld/integration/process"
)

// TestPartitions partitions the network under load. It runs in a network namespace.
func TestPartitions(t *testing.T) {
	if !netns.Inside() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		root, err := process.Root()
		if err != nil {
			t.Fatal(err)
		}
		firewall, err := netns.BuildFirewall(ctx, root, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		out, err := netns.Run(ctx, firewall, "-test.run=^TestPartitions$", "-test.v", "-test.timeout=10m")
		if errors.Is(err, netns.ErrNotPermitted) {
			missing(t, "CLONE_NEWNET", err.Error())
		}
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	if err := netns.LoopbackUp(); err != nil {
		t.Fatal(err)
	}
	wall, err := netns.NewFirewall()
	if err != nil {
		missing(t, "nftables", err.Error())
	}
	t.Cleanup(func() {
		if err := wall.Close(); err != nil {
			t.Error(err)
		}
	})
	f := startFaults(t, "partitions", process.Options{Nodes: 4})
	f.answers = true
	var all []netip.Addr
	for _, s := range f.ring.Servers {
		all = append(all, netip.MustParseAddrPort(s.Address).Addr())
	}
	// One node is isolated in both directions: the other three serve requests.
	f.partition("one node away", func() error { return wall.Cut(all[:1], all[1:]) }, wall.Heal, f.ring.Servers[:1],
		pauseGap)
	// One node sends but does not receive: requests that it coordinates may fail, others may not.
	f.partition("one node deaf", func() error {
		return errors.Join(wall.Drop(all[0], all[3]), wall.Drop(all[1], all[3]), wall.Drop(all[2], all[3]))
	}, wall.Heal, f.ring.Servers[3:], pauseGap)
	// Two nodes cannot reach each other, but all others: each has a quorum without the other.
	f.partition("a bridge", func() error { return wall.Cut(all[1:2], all[2:3]) }, wall.Heal, nil, pauseGap)
	f.halves(wall, all)
	f.end()
}

// partition creates a partition, in which requests to some nodes may fail, and heals it.
func (f *faults) partition(name string, cut, heal func() error, away []*process.Server, limit time.Duration) {
	f.t.Helper()
	began := time.Now()
	if err := cut(); err != nil {
		f.t.Fatal(err)
	}
	time.Sleep(settled + pauseGap)
	p99 := f.w.quantile(began.Add(pauseGap), time.Now(), 0.99)
	gap := f.gapWithin(began, time.Now(), limit)
	if err := heal(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.ring.WaitAgreed(ringStart); err != nil {
		f.t.Fatal(name, ": ", err)
	}
	for _, s := range away {
		f.until(s, began)
	}
	f.t.Logf("%s: the longest gap was %v, 99 of 100 requests took up to %v, %v before", name, gap, p99, f.quiet)
	time.Sleep(settled)
}

// halves divides the ring in two: no side has a quorum, so neither may acknowledge a write until the partition heals.
func (f *faults) halves(wall *netns.Firewall, all []netip.Addr) {
	f.t.Helper()
	began := time.Now()
	if err := wall.Cut(all[:2], all[2:]); err != nil {
		f.t.Fatal(err)
	}
	time.Sleep(settled + pauseGap)
	if p := f.w.quantile(began.Add(pauseGap), time.Now(), 0.5); p != 0 {
		f.t.Errorf("requests at QUORUM succeeded, in %v, though no side has a quorum", p)
	}
	refused := 0
	for _, o := range f.w.failures(func(o outcome) bool { return o.at.Before(began) }) {
		if strings.Contains(o.err.Error(), "UNAVAILABLE") {
			refused++
		}
	}
	if refused == 0 {
		f.t.Error("no request failed with UNAVAILABLE")
	}
	if err := wall.Heal(); err != nil {
		f.t.Fatal(err)
	}
	healed := time.Now()
	if err := f.ring.WaitAgreed(ringStart); err != nil {
		f.t.Fatal("two halves: ", err)
	}
	for _, s := range f.ring.Servers {
		f.until(s, began)
	}
	time.Sleep(settled)
	if p := f.w.quantile(healed.Add(settled), time.Now(), 0.5); p == 0 {
		f.t.Error("no request succeeds after the partition healed")
	}
	f.t.Logf("two halves: %d requests were refused, they agreed %v after the network was whole", refused,
		time.Since(healed))
}
