package goroutine

import (
	"slices"
	"testing"
	"time"

	"cqld/simulation/kernel"
)

func never() bool { return false }

func newScheduler() (*kernel.Kernel, *Scheduler) {
	k := kernel.New()
	return k, New(k, kernel.NewStream(1, "goroutines"))
}

// TestPausedProcessesKeepTheirEvents pauses a process: what arrives meanwhile is executed in order when it resumes.
func TestPausedProcessesKeepTheirEvents(t *testing.T) {
	k, s := newScheduler()
	var got []int
	s.Soon(func() { got = append(got, 1) })
	s.Pause()
	s.Do(func() { got = append(got, 0) })
	k.RunUntil(time.Second, never)
	if len(got) > 0 || !s.Paused() {
		t.Errorf("a paused process has executed %v", got)
	}
	s.Resume()
	k.RunUntil(2*time.Second, never)
	if !slices.Equal(got, []int{0, 1}) {
		t.Errorf("a resumed process has executed %v", got)
	}
}

// TestEndedProcessesDiscardTheirEvents ends a process that has events, spawned functions and a task that waits.
func TestEndedProcessesDiscardTheirEvents(t *testing.T) {
	k, s := newScheduler()
	discarded := func() { t.Error("an ended process executes an event") }
	s.Soon(discarded)
	s.Spawn(discarded)
	deferred := false
	s.RunTask(func() {
		defer func() { deferred = true }()
		s.NewWaiter().Wait()
		t.Error("a task of an ended process continues")
	})
	s.End()
	k.RunUntil(time.Second, never)
	if !deferred || !s.Ended() {
		t.Errorf("the task has returned: %v, the process has ended: %v", deferred, s.Ended())
	}
}

// TestTasksWait runs a task that waits for one signal that comes later, and for one that came before.
func TestTasksWait(t *testing.T) {
	k, s := newScheduler()
	var got []time.Duration
	s.RunTask(func() {
		w := s.NewWaiter()
		k.After(time.Second, "answer", w.Signal)
		w.Wait()
		got = append(got, k.Now())
		w.Signal()
		w.Wait()
		got = append(got, k.Now())
	})
	if len(got) > 0 {
		t.Error("the task does not wait")
	}
	k.RunUntil(time.Minute, never)
	if !slices.Equal(got, []time.Duration{time.Second, time.Second}) {
		t.Errorf("the task has continued at %v", got)
	}
}

// TestPlacesNest runs code of one place within code of another one.
func TestPlacesNest(t *testing.T) {
	_, s := newScheduler()
	var got []Place
	s.OnStream(func() {
		s.At(InCommitter, func() { got = append(got, s.Place()) })
		got = append(got, s.Place())
		s.OnWorker(func() { got = append(got, s.Place()) })
	})
	if !slices.Equal(got, []Place{InCommitter, OnStream, MayBlock}) {
		t.Errorf("the places are %v", got)
	}
}

// TestSpawnedFunctionsRunOnce spawns functions, some of which run between two entries of the log.
func TestSpawnedFunctionsRunOnce(t *testing.T) {
	k, s := newScheduler()
	ran := make([]int, 50)
	for i := range ran {
		s.Spawn(func() { ran[i]++ })
	}
	s.Interleave()
	early := len(slices.DeleteFunc(slices.Clone(ran), func(n int) bool { return n == 0 }))
	k.RunUntil(time.Minute, never)
	if slices.Min(ran) != 1 || slices.Max(ran) != 1 || early == 0 || early == len(ran) {
		t.Errorf("of %d functions, %d ran between two entries; the numbers of runs are %v", len(ran), early, ran)
	}
}
