//go:build integration

package integration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// These faults affect real processes. Each test is short enough for every run; CQLD_FAULTS=25 makes it 25 times as
// long, for a release: 500 kills.

// times returns the factor of CQLD_FAULTS.
func times() int {
	if n, err := strconv.Atoi(os.Getenv("CQLD_FAULTS")); err == nil && n > 0 {
		return n
	}
	return 1
}

const (
	killGap  = time.Second     // how long nothing may be acknowledged when a node is killed
	pauseGap = 3 * time.Second // or hangs
	// settled is when latencies must be close to those without faults again.
	settled = 2 * time.Second
	// noise is the tolerance of latencies on a machine with other work.
	noise = 25 * time.Millisecond
)

// faults is a ring under load with injected faults.
type faults struct {
	t    *testing.T
	ring *process.Ring
	w    *workload
	// answers means that an unreliable node may also return errors, because it was paused while the request waited in
	// it.
	answers bool
	quiet   time.Duration // the 99th percentile before the first fault
	best    time.Duration // the lowest one since then
	hit     []hit
}

// hit is a period in which a node was unreliable: requests to it may fail.
type hit struct {
	address  string
	from, to time.Time
}

func startFaults(t *testing.T, keyspace string, o process.Options) *faults {
	t.Helper()
	return loadOn(t, startRing(t, o), keyspace)
}

// loadOn starts a load on a running ring.
func loadOn(t *testing.T, ring *process.Ring, keyspace string) *faults {
	t.Helper()
	f := &faults{t: t, ring: ring}
	f.w = startWorkload(t, strings.Split(f.ring.Addresses(), ","), keyspace, 2)
	time.Sleep(time.Second)
	began := time.Now()
	time.Sleep(3 * time.Second)
	f.quiet = f.w.quantile(began, time.Now(), 0.99)
	return f
}

// until records that a node was unreliable from a time until now, and slightly longer, because clients detect a broken
// connection at its next use.
func (f *faults) until(s *process.Server, from time.Time) {
	f.hit = append(f.hit, hit{s.Address, from.Add(-time.Second), time.Now().Add(time.Second)})
}

// excused reports whether a failed request was sent to an unreliable node, and failed because it got no answer.
func (f *faults) excused(o outcome) bool {
	if errors.Is(o.err, errLost) || cqlAnswer(o.err) && !f.answers {
		return false
	}
	for _, h := range f.hit {
		if o.address == h.address && o.at.After(h.from) && o.at.Before(h.to) {
			return true
		}
	}
	return false
}

// end stops the load and checks it: no request failed that is not excused, and all acknowledged writes exist.
func (f *faults) end() {
	f.t.Helper()
	f.w.stop()
	failed := f.w.failures(f.excused)
	for i, o := range failed {
		if i == 10 {
			f.t.Errorf("and %d more requests failed", len(failed)-i)
			break
		}
		f.t.Errorf("a request to %s failed at %s after %v: %v", o.address, o.at.Format("15:04:05.000"), o.took, o.err)
	}
	for _, s := range f.ring.Servers {
		if s.Running() {
			f.w.readBack(f.t, s.Address)
			return
		}
	}
}

// gapWithin checks that requests were acknowledged at intervals of at most limit.
func (f *faults) gapWithin(from, to time.Time, limit time.Duration) time.Duration {
	f.t.Helper()
	gap := f.w.gap(from, to)
	if gap > limit {
		f.t.Errorf("nothing was acknowledged for %v, the limit is %v", gap, limit)
	}
	return gap
}

// watch measures the latencies between two times, which must be close to those without faults again.
func (f *faults) watch(from, to time.Time) time.Duration {
	p99 := f.w.quantile(from, to, 0.99)
	if p99 > 0 && (f.best == 0 || p99 < f.best) {
		f.best = p99
	}
	return p99
}

// quietAgain checks that at least one of the measured periods had such latencies: in others, the machine may have been
// busy with other work.
func (f *faults) quietAgain() {
	f.t.Helper()
	if f.best == 0 || f.best > max(2*f.quiet, f.quiet+noise) {
		f.t.Errorf("99 of 100 requests took up to %v at best, %v before", f.best, f.quiet)
	}
}

// TestKills kills nodes under load repeatedly.
func TestKills(t *testing.T) {
	kills, watched := 20*times(), 2*times()
	f := startFaults(t, "kills", process.Options{Nodes: 4})
	var worstGap, worst99 time.Duration
	for i := range kills {
		s := f.ring.Servers[i%4]
		killed := time.Now()
		s.Kill()
		if i < watched {
			time.Sleep(settled + 2*time.Second)
			worst99 = max(worst99, f.watch(killed.Add(settled), time.Now()))
		} else {
			time.Sleep(time.Duration(i%5) * 100 * time.Millisecond)
		}
		dead := time.Now()
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := f.ring.WaitAgreed(ringStart); err != nil {
			t.Fatalf("after %d kills: %v", i+1, err)
		}
		f.until(s, killed)
		// Requests that were planned while the node was down need the three others: the next node is killed after
		// they have ended.
		f.w.settle(t)
		worstGap = max(worstGap, f.gapWithin(killed, maxTime(dead, killed.Add(killGap)), killGap))
	}
	f.end()
	f.quietAgain()
	t.Logf("%d kills: the longest gap was %v; 99 of 100 requests took up to %v, %v before the first", kills, worstGap,
		worst99, f.quiet)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TestPauses pauses nodes under load: their connections stay open, but they send nothing.
func TestPauses(t *testing.T) {
	f := startFaults(t, "pauses", process.Options{Nodes: 4})
	f.answers = true
	for i := range 2 * times() {
		s := f.ring.Servers[i%4]
		paused := time.Now()
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(settled + pauseGap)
		p99 := f.watch(paused.Add(pauseGap), time.Now())
		resumed := time.Now()
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		gap := f.gapWithin(paused, resumed, pauseGap)
		if err := f.ring.WaitAgreed(ringStart); err != nil {
			t.Fatal(err)
		}
		f.until(s, paused)
		t.Logf("a pause: the longest gap was %v; 99 of 100 requests took up to %v, %v before", gap, p99, f.quiet)
		time.Sleep(settled)
	}
	f.end()
	f.quietAgain()
}

// TestRollingRestart replaces one build by another, node by node, under load.
func TestRollingRestart(t *testing.T) {
	f := startFaults(t, "rolling", process.Options{Nodes: 4})
	_, dir := cqld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	build, err := process.Build(ctx, filepath.Join(dir, "another"), "-ldflags", "-buildid=another")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.ring.Servers {
		stopped := time.Now()
		s.Stop()
		s.UseBinary(build)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := f.ring.WaitAgreed(ringStart); err != nil {
			t.Fatal(err)
		}
		f.until(s, stopped)
		gap := f.gapWithin(stopped, maxTime(time.Now(), stopped.Add(killGap)), killGap)
		t.Logf("%s was away for %v, the longest gap was %v", s.Address, time.Since(stopped), gap)
	}
	f.end()
}

// cqlAnswer reports whether an error was sent by a server.
func cqlAnswer(err error) bool {
	var e *cqlclient.Error
	return errors.As(err, &e)
}
