package latch

import (
	"sync"
	"testing"
	"time"

	"cqld/ring"
)

// TestWaitingWriterAdmitsReaders shows that commits proceed while a writer waits for an ingestion, which holds the read
// side.
func TestWaitingWriterAdmitsReaders(t *testing.T) {
	var l Latches
	l.RLock(AllStripes) // an ingestion
	locked := make(chan struct{})
	go func() {
		l.Lock(AllStripes)
		close(locked)
	}()
	committed := make(chan struct{})
	go func() {
		for i := range ring.Token(50) {
			l.RLock(StripeOf(i))
			l.RUnlock(StripeOf(i))
		}
		close(committed)
	}()
	select {
	case <-committed:
	case <-locked:
		t.Error("the writer did not wait for the reader")
	case <-time.After(time.Minute):
		t.Error("commits wait for a writer that waits for an ingestion")
	}
	l.RUnlock(AllStripes)
	<-locked
	l.Unlock(AllStripes)
}

// TestWritersExcludeEachOther takes overlapping sets of stripes in several goroutines.
func TestWritersExcludeEachOther(t *testing.T) {
	var l Latches
	var wait sync.WaitGroup
	counts := [64]int{}
	for w := range 4 {
		wait.Go(func() {
			for i := range 500 {
				set := StripeOf(ring.Token(i)) | StripeOf(ring.Token(i*w+1))
				l.Lock(set)
				for stripe := range counts {
					if set&(1<<stripe) != 0 {
						counts[stripe]++
					}
				}
				l.Unlock(set)
			}
		})
	}
	wait.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	if total < 4*500 {
		t.Errorf("%d", total)
	}
}
