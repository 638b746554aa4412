package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/paxos"
	"cqld/ring"
)

// listClock is the clock of one of several nodes: theirs differ by less than a millisecond.
type listClock struct {
	shared *time.Time
	skew   time.Duration
}

func (c listClock) Now() time.Time                        { return c.shared.Add(c.skew) }
func (c listClock) Monotonic() time.Duration              { return c.Now().Sub(time.Unix(0, 0)) }
func (c listClock) After(time.Duration, func()) env.Timer { panic("nothing waits here") }

// listStore is the coordinator of one node. All nodes share the rows.
type listStore struct {
	*modelStore
	stamps *env.HLC
}

func (s listStore) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	s.ballot = s.stamps.Next() - 1 - modelBallots
	s.modelStore.CAS(req, done)
}

// listRing are coordinators of one table with lists.
type listRing struct {
	now    time.Time
	nodes  []*Processor
	stamps []*env.HLC
	s      *Session
	rand   *rand.Rand
	value  int32
	trace  []string
}

// listChange are the elements that one statement or batch adds to a list, in the order of the list.
type listChange struct{ front, back []int32 }

func newListRing(t *testing.T, seed uint64) *listRing {
	r := &listRing{now: time.Unix(1700000000, 0), rand: rand.New(rand.NewPCG(seed, 3))}
	store, n := &modelStore{}, newOneNode()
	for i := range 4 {
		clock := listClock{&r.now, time.Duration(r.rand.IntN(900)) * time.Microsecond}
		stamps := env.NewHLC(clock, time.Minute)
		o := Options{View: n, Changer: n, Executor: over(listStore{store, stamps}), Clock: clock, Timestamps: stamps,
			Rand: rand.NewPCG(seed, uint64(i)), PagingKey: func() []byte { return []byte("key") }}
		r.nodes, r.stamps = append(r.nodes, New(o)), append(r.stamps, stamps)
	}
	r.s = &Session{Version: 5}
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k int, c int, l list<int>, s list<int> STATIC, v int, PRIMARY KEY (k, c))",
	} {
		mustQuery(t, r.nodes[0], r.s, text)
		r.observe()
	}
	r.s.Keyspace = "ks"
	mustQuery(t, r.nodes[0], r.s, "INSERT INTO t (k, c, v) VALUES (1, 1, 0)")
	r.observe()
	return r
}

// observe has the effect of the messages of an acknowledged write: all nodes learn the timestamps of its coordinator.
func (r *listRing) observe() {
	for _, from := range r.stamps {
		for _, to := range r.stamps {
			if err := to.Observe(from.Last()); err != nil {
				panic(err)
			}
		}
	}
}

// elements returns one to three new values, at times many, and their literal.
func (r *listRing) elements() (values []int32, literal string) {
	n := 1 + r.rand.IntN(3)
	if r.rand.IntN(40) == 0 {
		n = 30 + r.rand.IntN(100)
	}
	var texts []string
	for range n {
		r.value++
		values, texts = append(values, r.value), append(texts, fmt.Sprint(r.value))
	}
	return values, "[" + strings.Join(texts, ", ") + "]"
}

// update returns an UPDATE that appends or prepends to a list, and adds its elements to change.
func (r *listRing) update(list, using, condition string, change *listChange) string {
	values, literal := r.elements()
	set := fmt.Sprintf("%s = %s + %s", list, list, literal)
	if r.rand.IntN(3) == 0 {
		set = fmt.Sprintf("%s = %s + %s", list, literal, list)
		change.front = append(values, change.front...)
	} else {
		change.back = append(change.back, values...)
	}
	where := "k = 1 AND c = 1"
	if list == "s" && condition == "" {
		where = "k = 1"
	}
	return fmt.Sprintf("UPDATE t %sSET %s WHERE %s%s", using, set, where, condition)
}

// change executes a statement or a batch at any node.
func (r *listRing) change(t *testing.T, list string) listChange {
	var change listChange
	params := &Params{}
	if r.rand.IntN(2) == 0 { // as drivers do; these clients have clocks of their own
		params.HasTimestamp, params.Timestamp = true, r.now.UnixMicro()-int64(r.rand.IntN(1e6))
	}
	condition, using, text := "", "", ""
	switch r.rand.IntN(4) {
	case 0:
		condition = " IF v = 0"
	case 1:
		using = fmt.Sprintf("USING TIMESTAMP %d ", r.now.UnixMicro()-int64(r.rand.IntN(3)))
	}
	if r.rand.IntN(3) == 0 {
		var b strings.Builder
		b.WriteString("BEGIN BATCH ")
		for range 2 + r.rand.IntN(3) {
			b.WriteString(r.update(list, using, condition, &change) + "; ")
		}
		text = b.String() + "APPLY BATCH"
	} else {
		text = r.update(list, using, condition, &change)
	}
	node := r.rand.IntN(len(r.nodes))
	r.trace = append(r.trace, fmt.Sprintf("%d at node %d: %s", r.now.UnixMicro(), node, text))
	if _, err := r.nodes[node].Query(at(ring.One), r.s, text, params); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return change
}

// read returns a list.
func (r *listRing) read(t *testing.T, list string) (values []int32) {
	t.Helper()
	result := mustQuery(t, r.nodes[0], r.s, "SELECT c, "+list+" FROM t WHERE k = 1 AND c = 1")
	rows := wire.NewCursor(result.Rows)
	rows.Bytes()
	elements := wire.NewCursor(rows.Bytes())
	for range elements.Int32() {
		element := wire.NewCursor(elements.Bytes())
		values = append(values, element.Int32())
	}
	return values
}

// TestListsKeepTheOrderOfWrites appends and prepends through several nodes, within milliseconds: by statements and
// batches, with and without conditions and timestamps of clients. Changes that follow each other keep their order.
// Concurrent ones lose nothing, each keeps the order of its elements, and all are between the changes before and
// after them.
func TestListsKeepTheOrderOfWrites(t *testing.T) {
	for seed := range uint64(40) {
		r := newListRing(t, seed)
		want := map[string][]int32{}
		for range 60 {
			r.now = r.now.Add(time.Duration(r.rand.IntN(200)) * time.Microsecond)
			list := []string{"l", "s"}[r.rand.IntN(2)]
			concurrent := 1
			if r.rand.IntN(4) == 0 {
				concurrent += r.rand.IntN(3)
			}
			var changes []listChange
			for range concurrent {
				changes = append(changes, r.change(t, list))
			}
			r.observe()
			got := r.read(t, list)
			if err := merged(want[list], changes, got); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(r.trace, "\n"))
			}
			want[list] = got
		}
	}
}

// merged reports how got is not a list with concurrent changes.
func merged(list []int32, changes []listChange, got []int32) error {
	front, back := 0, 0
	for _, c := range changes {
		front, back = front+len(c.front), back+len(c.back)
	}
	if len(got) != front+len(list)+back {
		return fmt.Errorf("%d + %d + %d elements give %d: %v", front, len(list), back, len(got), got)
	}
	if mid := got[front : front+len(list)]; !slices.Equal(mid, list) {
		return fmt.Errorf("the list %v is %v between the prepended and appended elements", list, mid)
	}
	for _, c := range changes {
		for _, part := range []struct{ want, in []int32 }{{c.front, got[:front]}, {c.back, got[front+len(list):]}} {
			others := func(v int32) bool { return !slices.Contains(part.want, v) }
			found := slices.DeleteFunc(slices.Clone(part.in), others)
			if !slices.Equal(found, part.want) {
				return fmt.Errorf("elements %v of a change are %v in %v", part.want, found, got)
			}
		}
	}
	return nil
}
