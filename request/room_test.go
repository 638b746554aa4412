package request

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/memory"
	"cqld/row"
)

// slowDisk is a coordinator that completes writes in groups, one after the other, and refuses those beyond most bytes,
// as storage does. The bytes of a group count until its callbacks have returned.
type slowDisk struct {
	scripted
	most int64

	mu       sync.Mutex
	bytes    int64
	waiting  []func()
	size     int64 // of waiting
	refused  int
	largest  int64
	stopped  bool
	complete chan struct{} // closed when no group follows
}

func newSlowDisk(most int64) *slowDisk {
	s := &slowDisk{most: most, complete: make(chan struct{})}
	go func() {
		defer close(s.complete)
		for {
			time.Sleep(time.Millisecond)
			s.mu.Lock()
			group, n, stopped := s.waiting, s.size, s.stopped
			s.waiting, s.size = nil, 0
			s.mu.Unlock()
			for _, done := range group {
				done()
			}
			s.mu.Lock()
			s.bytes -= n
			s.mu.Unlock()
			if stopped {
				return
			}
		}
	}()
	return s
}

func (s *slowDisk) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	<-s.complete
}

func (s *slowDisk) Write(req *coordinator.WriteRequest, done func(error)) {
	n := coordinator.WriteSize(req.Mutations...)
	s.mu.Lock()
	refuse := s.bytes+n > s.most && s.bytes > 0
	if refuse {
		s.refused++
	} else {
		s.bytes += n
		s.size += n
		s.largest = max(s.largest, s.bytes)
		s.waiting = append(s.waiting, func() { done(nil) })
	}
	s.mu.Unlock()
	if refuse {
		done(&coordinator.Overloaded{What: "storage"})
	}
}

// sizedWrite returns a write of about n bytes.
func sizedWrite(n int) *coordinator.WriteRequest {
	m := new(row.Mutation)
	m.Reset(1, row.NewPartitionKey([]byte("k")))
	r := row.NewRow()
	r.Liveness.Timestamp = 1
	r.Cells = []row.Cell{{Column: 1, Timestamp: 1, Value: make([]byte, n)}}
	m.AddRow(r)
	return &coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Timeout: time.Second}
}

// flood sends writes of many clients as fast as they are answered, and returns how many failed.
func flood(e *Executor, clients, writes, size int) (failed int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range clients {
		all.Go(func() {
			r := &Request{Context: context.Background(), Principal: auth.Principal{Name: string(rune('a' + i%3))}}
			for range writes {
				if err := e.Write(r, sizedWrite(size)); err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return failed
}

// Clients that together send more than may wait for the disk are slowed down and not refused (issue 23, 1a).
func TestWritesWaitForTheDisk(t *testing.T) {
	const pending, clients, writes, size = 1 << 20, 200, 10, 20 << 10
	for _, waits := range []bool{false, true} {
		disk := newSlowDisk(pending)
		o := Options{Coordinator: disk, Clock: systemClock{}}
		if waits {
			o.Room = RoomForWrites(pending, memory.Options{})
		}
		failed := flood(New(o), clients, writes, size)
		disk.stop()
		if waits != (failed == 0) {
			t.Errorf("writes wait: %v, and %d failed", waits, failed)
		}
		if waits && (disk.largest < pending/4 || o.Room.Used() != 0 || o.Room.Stats().Waits == 0) {
			t.Errorf("%d bytes waited for the disk at most, and the room has %+v", disk.largest, o.Room.Stats())
		}
	}
}

// A write larger than what any may reserve is executed, as storage accepts it when nothing else waits.
func TestLargeWriteEntersTheRoom(t *testing.T) {
	disk := newSlowDisk(1 << 20)
	defer disk.stop()
	e := New(Options{Coordinator: disk, Clock: systemClock{}, Room: RoomForWrites(1<<20, memory.Options{})})
	r := &Request{Context: context.Background()}
	if err := e.Write(r, sizedWrite(4<<20)); err != nil {
		t.Error(err)
	}
}

// A write that waits ends with its client, its deadline, or the patience of the room. Then nothing is reserved.
func TestWaitsForTheDiskEnd(t *testing.T) {
	const pending = 1 << 20
	room := RoomForWrites(pending, memory.Options{Limits: memory.Limits{}})
	disk := newSlowDisk(pending)
	defer disk.stop()
	e := New(Options{Coordinator: disk, Clock: systemClock{}, Room: room})
	fill := func() (free func()) {
		var all []*memory.Account
		for {
			a := new(memory.Account)
			room.Open(a, memory.Origin{}, nil)
			if !a.TryGrow(64 << 10) {
				return func() {
					for _, a := range all {
						a.Close()
					}
				}
			}
			all = append(all, a)
		}
	}
	free := fill()
	// The first one that waits may use the reserve, so others are tried with the privilege in use.
	var first memory.Account
	room.Open(&first, memory.Origin{}, nil)
	if err := first.Grow(context.Background(), room.Limits().Reserve); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := e.Write(&Request{Context: ctx}, sizedWrite(80<<10)); !errors.Is(err, context.Canceled) {
		t.Errorf("the client has disconnected: %v", err)
	}
	var overloaded *coordinator.Overloaded
	late := &Request{Context: context.Background(), Deadline: e.o.Clock.Monotonic() + 20*time.Millisecond}
	if err := e.Write(late, sizedWrite(80<<10)); !errors.As(err, &overloaded) {
		t.Errorf("after the deadline: %v", err)
	}
	began := time.Now()
	if err := e.Write(&Request{Context: context.Background()}, sizedWrite(80<<10)); !errors.As(err, &overloaded) {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	first.Close()
	free()
	if n := room.Used(); n != 0 {
		t.Errorf("%d bytes are reserved", n)
	}
	if err := e.Write(&Request{Context: context.Background()}, sizedWrite(80<<10)); err != nil {
		t.Error(err)
	}
}

// systemClock is the clock of the machine.
type systemClock struct{}

func (systemClock) Now() time.Time                            { return time.Now() }
func (systemClock) Monotonic() time.Duration                  { return time.Since(time.Time{}) % (1 << 50) }
func (systemClock) After(d time.Duration, f func()) env.Timer { return time.AfterFunc(d, f) }
