package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLocalRingWaitsWhileMakingProgress checks that awaitAgreement waits for a ring that starts more slowly
// than the timeout but makes progress, and gives up on one that makes none.
func TestLocalRingWaitsWhileMakingProgress(t *testing.T) {
	synctest.Test(t, localRingWaits) // time passes only while all goroutines wait
}

func localRingWaits(t *testing.T) {
	const timeout = 200 * time.Millisecond
	members := make([]member, 8)
	for i := range members {
		members[i].dir = "x"
	}
	r := newLocalRing(members)
	report := func(members, epoch int) {
		for _, n := range r.nodes[:members] {
			n.mu.Lock()
			n.mu.status = fmt.Sprintf("up=%d of=%d epoch=%d schema=0", members, members, epoch)
			n.mu.Unlock()
		}
		r.notify()
	}
	ended := make(chan error, 1)
	go func() { ended <- r.awaitAgreement(context.Background(), timeout) }()
	for i := range r.nodes {
		time.Sleep(timeout / 2)
		report(i+1, i)
	}
	if err := <-ended; err != nil {
		t.Errorf("a slow ring: %v", err)
	}
	report(7, 9)
	begin, stop := time.Now(), make(chan struct{})
	go func() { // status changes without progress
		for i := 10; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(timeout / 4):
				report(7, i)
			}
		}
	}()
	err := r.awaitAgreement(context.Background(), timeout)
	close(stop)
	if err == nil || !strings.Contains(err.Error(), "no progress for") || time.Since(begin) < timeout {
		t.Errorf("a ring that stands still: %v", err)
	}
}

// TestLocalRingWhoseNodesFailFails ends all nodes of a ring: with status 0, as after `cqld local stop`, or with errors.
// The result names each node that failed, unless the user has started it again.
func TestLocalRingWhoseNodesFailFails(t *testing.T) {
	for _, c := range []struct {
		name               string
		failing, restarted []int
		want               []int
	}{
		{"all were stopped", nil, nil, nil},
		{"one was killed", []int{2}, nil, []int{2}},
		{"all were killed", []int{1, 2, 3}, nil, []int{1, 2, 3}},
		{"one of two was started again", []int{1, 3}, []int{1}, []int{3}},
	} {
		dir := t.TempDir()
		members := make([]member, 3)
		for i := range members {
			members[i] = member{index: i + 1, dir: filepath.Join(dir, fmt.Sprint("node", i+1))}
		}
		r := newLocalRing(members)
		killed := errors.New("signal: killed")
		for _, n := range r.nodes {
			n.mu.ended, n.mu.reported = true, true
		}
		for _, i := range c.failing {
			r.nodes[i-1].mu.err = killed
		}
		for _, i := range c.restarted {
			r.nodes[i-1].mu.byHand = true
			// No node listens there, so news finds that the user's process has ended as well.
			r.nodes[i-1].mu.restarted = true
			r.nodes[i-1].news()
		}
		if r.watch(t.Context(), time.Millisecond) {
			t.Fatalf("%s: watch was interrupted", c.name)
		}
		err := r.failed()
		if (err == nil) != (len(c.want) == 0) || err != nil && !errors.Is(err, killed) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, i := range c.want {
			if !strings.Contains(err.Error(), fmt.Sprintf("node %d exited: signal: killed; see %s", i,
				filepath.Join(members[i-1].dir, logFile))) {
				t.Errorf("%s: node %d is not in %v", c.name, i, err)
			}
		}
		if err != nil && strings.Count(err.Error(), "exited") != len(c.want) {
			t.Errorf("%s: %v, want nodes %v", c.name, err, c.want)
		}
	}
}
