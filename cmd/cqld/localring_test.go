package main

import (
	"context"
	"fmt"
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
