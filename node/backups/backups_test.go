package backups

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cqld/backup"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// TestIntersectionsHaveTheTokensOfBoth compares intersections of random ranges with their members.
func TestIntersectionsHaveTheTokensOfBoth(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	tokens := []ring.Token{ring.MinToken, -7, -3, 0, 1, 5, 9, ring.MaxToken}
	draw := func() ring.Range {
		return ring.Range{Start: tokens[random.IntN(len(tokens))], End: tokens[random.IntN(len(tokens))]}
	}
	for range 2000 {
		a, b := draw(), draw()
		both := intersect(a, b)
		for token := ring.Token(-10); token <= 12; token++ {
			for _, k := range []ring.Token{token, ring.MaxToken, ring.MinToken + 1} {
				in := slices.ContainsFunc(both, func(r ring.Range) bool { return r.Contains(k) })
				if want := a.Contains(k) && b.Contains(k); in != want {
					t.Fatalf("%v in %v and %v: %v, want %v: %v", k, a, b, in, want, both)
				}
			}
		}
		for _, r := range both {
			if r.Wraps() {
				t.Errorf("%v wraps", r)
			}
		}
	}
}

// TestRestoredShardsHaveNoNode renames shards: each former node has another path, the same in each attempt, and none is
// the path of a node.
func TestRestoredShardsHaveNoNode(t *testing.T) {
	m := &backup.Manifest{Name: "b", ClusterID: "c"}
	cells := func(m *backup.Manifest) *row.Row {
		r := row.NewRow()
		for node := range byte(3) {
			r.Cells = append(r.Cells, row.Cell{Column: 1, Path: []byte{0, 0, 0, 0, 0, 0, 0, node + 1},
				Value: []byte{node}})
		}
		renameShards(m, r)
		return r
	}
	r, again := cells(m), cells(m)
	other := cells(&backup.Manifest{Name: "b", ClusterID: "d"})
	for i := range r.Cells {
		if r.Cells[i].Path[0] < 0x80 || i > 0 && bytes.Compare(r.Cells[i-1].Path, r.Cells[i].Path) >= 0 {
			t.Errorf("path %x", r.Cells[i].Path)
		}
		if !bytes.Equal(r.Cells[i].Path, again.Cells[i].Path) || bytes.Equal(r.Cells[i].Path, other.Cells[i].Path) {
			t.Errorf("paths %x, %x and, of another cluster, %x", r.Cells[i].Path, again.Cells[i].Path,
				other.Cells[i].Path)
		}
	}
}

// bubble is the clock of a bubble of synctest.
type bubble struct{ began time.Time }

func (bubble) Now() time.Time                            { return time.Now() }
func (b bubble) Monotonic() time.Duration                { return time.Since(b.began) }
func (bubble) After(d time.Duration, f func()) env.Timer { return time.AfterFunc(d, f) }

const leaseMax, patience = time.Minute, 45 * time.Second

// inBubble calls f with a node that runs steps in goroutines, in a bubble of synctest.
func inBubble(t *testing.T, f func(t *testing.T, w *tasks, expired *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		var expired []string
		w := &tasks{clock: bubble{time.Now()}, await: env.AwaitChannel, lease: leaseMax,
			run: func(f func()) { wait.Go(f) }, lifetime: ctx,
			expired: func(task string) { expired = append(expired, task) }}
		f(t, w, &expired)
		cancel()
		wait.Wait()
	})
}

// TestNodesWorkOnOneTask begins steps of two tasks.
func TestNodesWorkOnOneTask(t *testing.T) {
	inBubble(t, func(t *testing.T, w *tasks, _ *[]string) {
		release := make(chan struct{})
		work := func(ctx context.Context, progress func(done, total int64)) error {
			progress(3, 9)
			select {
			case <-release:
				return errors.New("failed")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		first := &Request{Task: "first", Job: "1", Step: Checkpoint}
		if err := w.begin(first, work); err != nil {
			t.Fatal(err)
		}
		// A repeated message begins nothing.
		if err := w.begin(first, func(context.Context, func(int64, int64)) error { panic("begun twice") }); err != nil {
			t.Error(err)
		}
		if err := w.begin(&Request{Task: "second", Job: "2", Step: Restore}, work); !errors.Is(err, errBusy) {
			t.Errorf("a second task: %v", err)
		}
		if _, err := w.poll(&Request{Task: "second"}); err == nil {
			t.Error("the state of an unknown task was returned")
		}
		synctest.Wait()
		if reply, err := w.poll(first); err != nil || !reply.Running || reply.Done != 3 || reply.Total != 9 {
			t.Errorf("%+v, %v", reply, err)
		}
		close(release)
		synctest.Wait()
		if reply, err := w.poll(first); err != nil || reply.Running || reply.Error != "failed" {
			t.Errorf("%+v, %v", reply, err)
		}
		if !w.end(first) || w.end(first) {
			t.Error("a task did not end, or ended twice")
		}
		if err := w.begin(&Request{Task: "second", Job: "2", Step: Restore}, work); err != nil {
			t.Errorf("after the first: %v", err)
		}
	})
}

// TestNextAttemptsReplaceEarlierOnes begins a step for another attempt of a job, whose leader has not ended the first
// one. The step begins when the first has ended, and the files of the first are removed.
func TestNextAttemptsReplaceEarlierOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *tasks, expired *[]string) {
		ending := make(chan struct{})
		first := &Request{Task: "a-0", Job: "a", Step: Upload}
		second := &Request{Task: "a-1", Job: "a", Step: Checkpoint}
		if err := w.begin(first, func(ctx context.Context, _ func(int64, int64)) error {
			<-ctx.Done()
			<-ending
			return ctx.Err()
		}); err != nil {
			t.Fatal(err)
		}
		began := false
		if err := w.begin(second, func(context.Context, func(int64, int64)) error {
			began = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := w.poll(first); err == nil || began {
			t.Errorf("the first attempt continues (%v), or the next one has begun before its end (%v)", err, began)
		}
		close(ending)
		time.Sleep(leaseMax / 2)
		synctest.Wait()
		reply, err := w.poll(second)
		if err != nil || reply.Running || !began || !slices.Equal(*expired, []string{"a-0"}) {
			t.Errorf("%+v, %v, expired %q", reply, err, *expired)
		}
	})
}

// ringOf returns a leader of nodes that answer as a function says, with a clock that moves by itself.
func ringOf(ctx context.Context, ask func(node ring.NodeID, r *Request) (Reply, error), nodes ...ring.NodeID) *leader {
	limits := Limits{Patience: patience}
	n := &Node{o: Options{Clock: bubble{time.Now()}, Await: env.AwaitChannel, Limits: limits, Lifetime: ctx}}
	n.o.Ask = func(node ring.NodeID, message []byte, reply func([]byte, error)) {
		r, err := decodeRequest(message)
		var answer Reply
		if err == nil {
			answer, err = ask(node, r)
		}
		b, _ := json.Marshal(answer)
		reply(b, err)
	}
	l := &leader{n: n, job: "j", task: "t"}
	for _, id := range nodes {
		l.nodes = append(l.nodes, &ring.Node{ID: id})
	}
	return l
}

// TestLeadersWaitForNodes polls nodes that do not answer for a while, and nodes that do not know the task.
func TestLeadersWaitForNodes(t *testing.T) {
	for what, of := range map[string]struct {
		silent time.Duration
		err    error
		want   string
	}{
		"a short silence":   {silent: patience / 2, err: messaging.ErrUnreachable},
		"an overloaded one": {silent: patience / 2, err: &messaging.RemoteError{Code: messaging.CodeOverloaded}},
		"a long silence":    {silent: 3 * patience, err: messaging.ErrTimeout, want: "no reply in time"},
		"a restart": {silent: time.Hour, err: &messaging.RemoteError{Message: "no longer knows"},
			want: "no longer"},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, polls := time.Now(), 0
			l := ringOf(t.Context(), func(node ring.NodeID, r *Request) (Reply, error) {
				silent := time.Since(began) > time.Second && time.Since(began) < of.silent
				if node == 2 && silent {
					return Reply{}, of.err
				}
				if r.Step == Poll {
					polls++
				}
				return Reply{Running: time.Since(began) < time.Second+of.silent, Done: 1, Total: 2}, nil
			}, 2, 3)
			var done, total int64
			err := l.each(t.Context(), Request{Step: Upload}, func(d, all int64) { done, total = d, all })
			if (err == nil) != (of.want == "") || err != nil && !strings.Contains(err.Error(), of.want) {
				t.Errorf("%s: %v", what, err)
			}
			if err == nil && (done != 2 || total != 4) {
				t.Errorf("%s: %d of %d", what, done, total)
			}
			// The lease of the other node must not end.
			if took := time.Since(began); of.want != "" && took > leaseMax || polls == 0 {
				t.Errorf("%s: it took %v, with %d polls", what, took, polls)
			}
		})
	}
}

// TestTasksEndWithoutTheirLeader asks for a while, and then no longer.
func TestTasksEndWithoutTheirLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, w *tasks, expired *[]string) {
		r := &Request{Task: "t", Step: Upload}
		if err := w.begin(r, func(ctx context.Context, _ func(int64, int64)) error {
			<-ctx.Done()
			return ctx.Err()
		}); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(leaseMax / 2)
			if reply, err := w.poll(r); err != nil || !reply.Running {
				t.Fatalf("%+v, %v", reply, err)
			}
		}
		time.Sleep(2 * leaseMax)
		synctest.Wait()
		if _, err := w.poll(r); err == nil || !slices.Equal(*expired, []string{"t"}) {
			t.Errorf("%v, expired %q", err, *expired)
		}
	})
}

// TestRequestsAreDecoded decodes requests whose task is the name of a directory.
func TestRequestsAreDecoded(t *testing.T) {
	for _, text := range []string{`{"step":"upload","task":"../x"}`, `{"step":"upload"}`, `{`, `[]`,
		`{"task":"` + strings.Repeat("x", 200) + `"}`} {
		if _, err := decodeRequest([]byte(text)); err == nil {
			t.Errorf("%.40s was accepted", text)
		}
	}
	r, err := decodeRequest([]byte(`{"step":"poll","task":"ABC","later":1}`))
	if err != nil || r.Step != Poll || r.Task != "ABC" {
		t.Errorf("%+v, %v", r, err)
	}
}
