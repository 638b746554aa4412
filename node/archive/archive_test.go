package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"cqld/auth"
	"cqld/backup"
	"cqld/cluster/metadata"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/logarchive"
)

// bubble is the clock of a bubble of synctest.
type bubble struct{ began time.Time }

func (bubble) Now() time.Time                            { return time.Now() }
func (b bubble) Monotonic() time.Duration                { return time.Since(b.began) }
func (bubble) After(d time.Duration, f func()) env.Timer { return time.AfterFunc(d, f) }

// fixture is a node with a log of numbers, one byte each. Its hybrid times are times of the bubble.
type fixture struct {
	t    *testing.T
	disk vfs.FS
	down atomic.Bool // the store fails

	mu       sync.Mutex
	stamp    int64
	times    []int64 // of the bytes of the log
	oldest   int     // bytes before it have been removed
	released int
	fresh    bool // the log begins with the data
	meta     *metadata.Metadata
	archive  *Archive
}

// node is the owner of the log.
var node = backup.LogOwner{Cluster: "c", Host: "h"}

// inBubble calls f with a node in a bubble of synctest.
func inBubble(t *testing.T, f func(t *testing.T, x *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		x := &fixture{t: t, disk: vfs.NewMem()}
		if err := x.disk.MkdirAll("/backups", 0o700); err != nil {
			t.Fatal(err)
		}
		x.change(1)
		s, err := x.store()
		if err == nil {
			// As the first backup does.
			err = s.Initialize(t.Context(), time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		f(t, x)
	})
}

// next returns the next hybrid time.
func (x *fixture) next() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stamp = max(x.stamp+1, time.Now().UnixMicro())
	return x.stamp
}

// write logs n bytes.
func (x *fixture) write(n int) {
	for range n {
		at := x.next()
		x.mu.Lock()
		x.times = append(x.times, at)
		x.mu.Unlock()
	}
}

// change makes the state of an epoch the current one.
func (x *fixture) change(epoch uint64) {
	topology, err := ring.RestoreTopology(1, 1, []*ring.Node{{ID: 1, Datacenter: "d", Rack: "r", State: ring.Normal,
		Tokens: []ring.Token{7}}}, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	// The hash of a role makes the states differ.
	roles, err := auth.Apply(auth.NewDirectory(), &auth.CreateRole{Name: fmt.Sprintf("r%d", epoch)})
	if err != nil {
		x.t.Fatal(err)
	}
	now := &metadata.Metadata{Epoch: epoch, Schema: schema.Empty(), Roles: roles, Topology: topology}
	x.mu.Lock()
	x.meta = now
	a := x.archive
	x.mu.Unlock()
	if a != nil {
		a.MetadataChanged(now)
	}
}

// Read implements Log.
func (x *fixture) Read(after logarchive.Position, maxBytes int) (logarchive.Segment, error) {
	until := x.next()
	x.mu.Lock()
	defer x.mu.Unlock()
	from := int(after.Offset)
	if after.IsZero() {
		from = x.oldest
	}
	position := func(n int) logarchive.Position { return logarchive.Position{Since: 1, Log: 1, Offset: uint64(n)} }
	if from < x.oldest {
		return logarchive.Segment{}, &logarchive.Gap{After: after, Oldest: position(x.oldest)}
	}
	to := min(from+maxBytes, len(x.times))
	g := logarchive.Segment{From: position(from), To: position(to), Until: until}
	if to < len(x.times) {
		g.Until = 0
	}
	if from < to {
		g.First, g.Last, g.Data = x.times[from], x.times[to-1], make([]byte, to-from)
	} else {
		g.Data = []byte("idle")
	}
	return g, nil
}

// Beginning implements Log.
func (x *fixture) Beginning() (logarchive.Position, bool) {
	return logarchive.Position{Since: 1, Log: 1}, x.fresh
}

// Release implements Log.
func (x *fixture) Release(upTo logarchive.Position) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.released = int(upTo.Offset)
}

// store opens the store, which fails while it is down.
func (x *fixture) store() (*backup.Store, error) {
	disk := errorfs.Wrap(x.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if x.down.Load() {
			return errors.New("the store is down")
		}
		return nil
	}))
	return backup.Places{Disk: disk}.Open("file:///backups")
}

// process runs an archive while f runs.
func (x *fixture) process(f func(a *Archive)) {
	a := New(Options{Open: x.store, Log: x, Owner: func() (backup.LogOwner, bool) { return node, true },
		Metadata: func() *metadata.Metadata {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.meta
		}, Stamp: x.next, Clock: bubble{time.Now()}, Await: env.AwaitChannel, Logger: slog.New(slog.DiscardHandler)})
	x.mu.Lock()
	x.archive = a
	x.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { a.Run(ctx) })
	synctest.Wait()
	f(a)
	cancel()
	wait.Wait()
	x.mu.Lock()
	x.archive = nil
	x.mu.Unlock()
	// Timers of the last pause.
	time.Sleep(time.Minute)
}

// way returns the segments that lead from the beginning to a moment.
func (x *fixture) way(at int64) ([]backup.Segment, error) {
	s, err := x.store()
	if err != nil {
		x.t.Fatal(err)
	}
	w, err := s.Logs().Way(context.Background(), node, backup.LogFrom{Log: 1, Time: 1}, at)
	return w.Segments, err
}

// TestLogsAreArchived archives a log over two processes, with a store that fails for a while in each, and finds a way
// to each moment at which it should be archived.
func TestLogsAreArchived(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		for range 2 {
			x.down.Store(true)
			x.process(func(a *Archive) {
				x.write(10)
				time.Sleep(time.Minute)
				if s := a.Stats(); s.Failures < 4 || s.Until != 0 {
					t.Errorf("while the store is down: %+v", s)
				}
				x.down.Store(false)
				time.Sleep(retryMax)
				for range 50 {
					x.write(3)
					at := x.next()
					time.Sleep(every + time.Millisecond)
					synctest.Wait()
					if s := a.Stats(); s.Until < at || s.Gaps > 0 {
						t.Fatalf("%+v after %d", s, at)
					}
					if _, err := x.way(at); err != nil {
						t.Fatal(err)
					}
				}
				size, _ := (*backup.Memory)(nil).Segment()
				x.write(2*int(size) + 5)
				time.Sleep(every)
				synctest.Wait()
				if x.released != len(x.times) {
					t.Errorf("%d of %d bytes are released", x.released, len(x.times))
				}
			})
		}
		segments, err := x.way(x.times[len(x.times)-1])
		if err != nil || segments[len(segments)-1].To.Offset != uint64(len(x.times)) {
			t.Fatalf("%v", err)
		}
		for i, g := range segments {
			if n := g.To.Offset - g.From.Offset; n > 4<<20 || i > 0 && g.From != segments[i-1].To {
				t.Errorf("segment %d: %+v", i, g)
			}
		}
	})
}

// TestArchivesBeginWithTheFirstBackup archives nothing until the location is a store, and then everything since the
// process has begun.
func TestArchivesBeginWithTheFirstBackup(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		x.disk = vfs.NewMem()
		if err := x.disk.MkdirAll("/backups", 0o700); err != nil {
			t.Fatal(err)
		}
		x.process(func(a *Archive) {
			x.write(10)
			x.change(2)
			at := x.next()
			time.Sleep(time.Hour)
			if names, err := x.disk.List("/backups"); err != nil || len(names) > 0 || a.Stats().Failures > 0 {
				t.Errorf("%q, %v, %+v", names, err, a.Stats())
			}
			s, err := x.store()
			if err == nil {
				err = s.Initialize(t.Context(), time.Now())
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * every)
			synctest.Wait()
			if segments, err := x.way(at); err != nil || len(segments) != 1 || segments[0].To.Offset != 10 {
				t.Errorf("%+v, %v", segments, err)
			}
			if all, err := s.Logs().Observations(t.Context(), node); err != nil || len(all) != 2 {
				t.Errorf("%+v, %v", all, err)
			}
		})
	})
}

// TestIdleLogsAreNoted writes nothing: the archive is complete until the last round.
func TestIdleLogsAreNoted(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		x.write(1)
		x.process(func(*Archive) {
			time.Sleep(time.Hour)
			at := x.next()
			time.Sleep(every + time.Millisecond)
			synctest.Wait()
			if segments, err := x.way(at); err != nil || len(segments) != 1 {
				t.Errorf("%+v, %v", segments, err)
			}
		})
	})
}

// TestLostPartsAreGaps loses a part of the log before it is archived. Moments before it can be restored, and none
// after.
func TestLostPartsAreGaps(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		x.process(func(a *Archive) {
			x.write(10)
			time.Sleep(2 * every)
			before := x.times[9]
			x.down.Store(true)
			x.write(10)
			time.Sleep(time.Minute)
			x.mu.Lock()
			x.oldest = 15
			x.mu.Unlock()
			x.down.Store(false)
			time.Sleep(time.Minute)
			x.write(1)
			time.Sleep(2 * every)
			synctest.Wait()
			if s := a.Stats(); s.Gaps != 1 {
				t.Errorf("%+v", s)
			}
			if _, err := x.way(before); err != nil {
				t.Error(err)
			}
			var p *backup.LogProblem
			if _, err := x.way(x.times[20]); !errors.As(err, &p) || p.From < before || p.To != x.times[15] {
				t.Errorf("%v", err)
			}
		})
	})
}

// TestStatesAreArchived changes the metadata while the store works, while it is down, and while the node is down.
func TestStatesAreArchived(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		state := func(at int64) uint64 {
			t.Helper()
			s, err := x.store()
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.Logs().Observations(t.Context(), node)
			if err != nil {
				t.Fatal(err)
			}
			o, err := backup.StateAt(all, at)
			if err != nil {
				if !strings.Contains(err.Error(), "when was not archived") {
					t.Fatal(err)
				}
				return 0
			}
			return o.Epoch
		}
		var moments []int64 // after the epochs 1, 2, …
		x.process(func(*Archive) {
			for epoch := range uint64(6) {
				if epoch > 0 {
					x.change(epoch + 1)
				}
				moments = append(moments, x.next())
				// The last two are changed while the store is down.
				x.down.Store(epoch >= 3)
				time.Sleep(every)
			}
			x.down.Store(false)
			time.Sleep(time.Minute)
		})
		for i, at := range moments {
			if got := state(at); got != uint64(i)+1 {
				t.Errorf("epoch %d: the state has epoch %d", i+1, got)
			}
		}
		// The same state at the next start is not a change; another one is a change at an unknown time.
		var quiet int64
		x.process(func(*Archive) {
			quiet = x.next()
			time.Sleep(2 * every)
		})
		x.change(9)
		down := x.next()
		time.Sleep(time.Minute)
		x.process(func(*Archive) { time.Sleep(every) })
		if a, b, c := state(quiet), state(down), state(x.next()); a != 6 || b != 0 || c != 9 {
			t.Errorf("the states have the epochs %d, %d and %d", a, b, c)
		}
		names, err := x.disk.List(path.Join("/backups/log", node.Cluster, "states"))
		if err != nil || len(names) != 7 {
			t.Errorf("%d states, %v", len(names), err)
		}
	})
}

// TestPendingStatesAreBounded changes the metadata more often than the archive remembers while the store is down.
func TestPendingStatesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		x.down.Store(true)
		x.process(func(a *Archive) {
			for epoch := range uint64(pendingMax + 10) {
				x.change(epoch + 2)
			}
			a.mu.Lock()
			n, last := len(a.mu.pending), a.mu.pending[len(a.mu.pending)-1]
			first := a.mu.pending[len(a.mu.pending)-2]
			a.mu.Unlock()
			// The times of the states that were replaced are between the two.
			between := last.unknown > first.at && last.unknown < last.at
			if n != pendingMax || last.state.Epoch != pendingMax+11 || !between {
				t.Errorf("%d states wait; the last one is of epoch %d, %d to %d", n, last.state.Epoch, last.unknown,
					last.at)
			}
		})
	})
}

// TestBeginningsAreNoted archives the log of a node that is new, and of one that had data before.
func TestBeginningsAreNoted(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		inBubble(t, func(t *testing.T, x *fixture) {
			x.fresh = fresh
			x.process(func(*Archive) { time.Sleep(time.Minute) })
			s, err := x.store()
			if err != nil {
				t.Fatal(err)
			}
			p, found, err := s.Logs().Beginning(context.Background(), node)
			if err != nil || found != fresh || fresh && p.Log != 1 {
				t.Errorf("%v: %+v, %v, %v", fresh, p, found, err)
			}
		})
	}
}
