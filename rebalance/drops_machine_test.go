package rebalance

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cqld/ring"
	"cqld/schema"
)

var errDisk = errors.New("disk")

// dropSteps executes steps of a dropMachine of node 1 of four, and writes their effects as text.
type dropSteps struct {
	m     dropMachine
	table schema.StorageID
}

func newDropSteps(t testing.TB) *dropSteps {
	catalog, table := testCatalog(t)
	s := &dropSteps{table: table.StorageID}
	s.m.view = &view{self: 1, schema: catalog, topology: ring.NewTopology(8, fourNodes())}
	return s
}

// items returns the range that node 2 holds, with a table and its Paxos states.
func (s *dropSteps) items() []dropItem {
	tables := []schema.StorageID{s.table}
	return []dropItem{{"ks", tables, ring.Range{Start: -6 << 60, End: -2 << 60}, nil, true, tables}}
}

func (s *dropSteps) step(ev dropEvent) string {
	if ev.number == 0 {
		ev.number = s.m.awaited
	}
	out := s.m.step(&ev, nil)
	s.m.check()
	var text []string
	for i := range out {
		text = append(text, describeDrop(&out[i]))
	}
	return strings.Join(text, ", ")
}

// describeDrop returns an effect as text.
func describeDrop(e *dropEffect) string {
	switch e.kind {
	case effectConfirm:
		return "confirm"
	case effectSearch:
		return fmt.Sprintf("search %d", len(e.items))
	case effectAsk:
		return fmt.Sprintf("ask %d", e.node)
	case effectFence:
		return fmt.Sprintf("fence %d", len(e.items))
	case effectDrop:
		if e.unit.states {
			return "drop states of " + e.unit.keyspace
		}
		return "drop table"
	case effectUnfence:
		return "unfence"
	case effectCount:
		return fmt.Sprintf("%d: %d/%d", len(e.cleanups), e.done, e.all)
	case effectSettle:
		return fmt.Sprintf("settle %s %d", e.keyspace, e.epoch)
	case effectClean:
		return fmt.Sprintf("clean %d", e.epoch)
	case effectAnswer:
		return fmt.Sprintf("answer %d %v", len(e.cleanups), e.err)
	case effectWarn:
		return "warn"
	case effectRetry:
		return fmt.Sprintf("retry %v", e.after)
	case effectReconcile:
		return "reconcile"
	case effectCheck:
		return fmt.Sprintf("check %v", e.after)
	case effectRegain:
		return fmt.Sprintf("regain %s %d", e.keyspace, e.epoch)
	}
	return "unknown"
}

// confirmed delivers a confirmation of metadata in which this node is unclean since an epoch.
func (s *dropSteps) confirmed(unclean uint64, former map[string]*FormerData) string {
	items := s.items()
	for i := range items {
		items[i].former = former[items[i].keyspace]
	}
	return s.step(dropEvent{kind: dropConfirmed, member: true, epoch: 8, unclean: unclean, items: items,
		former: former})
}

// searched returns steps whose decision has found data and queries the replicas.
func searched(t testing.TB, unclean uint64, former map[string]*FormerData) *dropSteps {
	s := newDropSteps(t)
	s.step(dropEvent{kind: dropRequested})
	s.confirmed(unclean, former)
	s.step(dropEvent{kind: dropSearched, items: s.m.decision.items})
	return s
}

// fencing returns steps whose decision fences its ranges.
func fencing(t testing.TB) *dropSteps {
	s := searched(t, 7, nil)
	s.answer(1)
	return s
}

// answer delivers the answers of all replicas.
func (s *dropSteps) answer(yes byte) (last string) {
	for len(s.m.decision.open) > 0 {
		n := s.m.decision.open[0]
		last = s.step(dropEvent{kind: dropAnswered, node: n,
			answers: []byte(strings.Repeat(string(yes), len(s.m.decision.of(n))))})
	}
	return last
}

// fencedAll delivers the end of a fence of all items.
func (s *dropSteps) fencedAll() string { return s.step(dropEvent{kind: dropFenced, items: s.items()}) }

// dropCase is the last of some steps, with its effects.
type dropCase struct {
	name, want string
	last       func(t *testing.T) string
}

// TestStepsOfDrops lists the effects of each event, in each state that matters.
func TestStepsOfDrops(t *testing.T) {
	for _, cases := range [][]dropCase{requestCases(), confirmationCases(), holdsCases(), removalCases(), stopCases()} {
		for _, c := range cases {
			if got := c.last(t); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	}
}

func requestCases() []dropCase {
	request := dropEvent{kind: dropRequested}
	asked := &cleanup{}
	return []dropCase{
		{"unclean", "confirm", func(t *testing.T) string { return newDropSteps(t).step(request) }},
		{"unclean during a decision", "", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(request)
			return s.step(request)
		}},
		{"cancelled", "answer 1 " + ErrCancelled.Error(), func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropRequested, cleanup: asked})
			return s.step(dropEvent{kind: dropCancelled, cleanup: asked})
		}},
		{"cancelled twice", "", func(t *testing.T) string {
			return newDropSteps(t).step(dropEvent{kind: dropCancelled, cleanup: asked})
		}},
		{"a request after the confirmation waits for the next decision", "retry 1s", func(t *testing.T) string {
			s := fencing(t)
			s.step(dropEvent{kind: dropRequested, cleanup: asked})
			s.fencedAll()
			s.step(dropEvent{kind: dropRemoved})
			s.step(dropEvent{kind: dropRemoved})
			s.step(dropEvent{kind: dropUnfenced})
			return s.step(dropEvent{kind: dropReported})
		}},
		{"gained ranges", "check 1s", func(t *testing.T) string {
			return newDropSteps(t).step(dropEvent{kind: dropGained})
		}},
		{"one check is scheduled", "", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropGained})
			return s.step(dropEvent{kind: dropGained})
		}},
		{"a check", "regain ks 5", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropGained})
			return s.step(dropEvent{kind: dropChecked, repaired: []GainedData{{Keyspace: "ks", Changed: 5}}})
		}},
	}
}

func confirmationCases() []dropCase {
	confirmed := func(change func(s *dropSteps, ev *dropEvent)) func(t *testing.T) string {
		return func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropRequested})
			ev := dropEvent{kind: dropConfirmed, member: true, epoch: 8, unclean: 7, items: s.items()}
			change(s, &ev)
			return s.step(ev)
		}
	}
	other := func(tables []schema.StorageID) func(t *testing.T) string {
		return confirmed(func(s *dropSteps, ev *dropEvent) {
			ev.unclean = 0
			s.m.current = []*cleanup{{keyspace: "ks", tables: tables}}
		})
	}
	return []dropCase{
		{"ranges are listed", "search 1", confirmed(func(*dropSteps, *dropEvent) {})},
		{"no member", "reconcile", confirmed(func(_ *dropSteps, ev *dropEvent) { ev.member = false })},
		{"nothing was lost", "reconcile", confirmed(func(_ *dropSteps, ev *dropEvent) { ev.unclean = 0 })},
		{"two operations", "warn, retry 1s", confirmed(func(_ *dropSteps, ev *dropEvent) { ev.operations = 2 })},
		{"a cleanup of the keyspace", "search 1", other(nil)},
		{"a cleanup of another table", "search 0", other([]schema.StorageID{1 << 20})},
		{"confirmed twice", "", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropRequested})
			first := s.m.awaited
			s.confirmed(7, nil)
			return s.step(dropEvent{kind: dropConfirmed, number: first, member: true})
		}},
		{"the disk cannot be read", "warn, retry 1s", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropRequested})
			s.confirmed(7, nil)
			return s.step(dropEvent{kind: dropSearched, err: errDisk})
		}},
		{"after the pause", "confirm", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropRequested})
			s.step(dropEvent{kind: dropConfirmed, member: true, operations: 2, unclean: 7})
			return s.step(dropEvent{kind: dropResumed})
		}},
	}
}

func holdsCases() []dropCase {
	former := func(reachable bool, yes byte) func(t *testing.T) string {
		return func(t *testing.T) string {
			s := searched(t, 7, map[string]*FormerData{"ks": {Epoch: 6, Since: 5, Reachable: reachable}})
			if reachable {
				return s.answer(yes)
			}
			// No replica is queried.
			return fmt.Sprintf("phase %d, %d items", s.m.phase, len(s.m.decision.items))
		}
	}
	return []dropCase{
		{"the replica is asked", "ask 2", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropRequested})
			s.confirmed(7, nil)
			return s.step(dropEvent{kind: dropSearched, items: s.items()})
		}},
		{"no data", "fence 0", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropRequested})
			s.confirmed(7, nil)
			return s.step(dropEvent{kind: dropSearched})
		}},
		{"the replica holds it", "fence 1", func(t *testing.T) string { return searched(t, 7, nil).answer(1) }},
		{"the replica does not", "warn, retry 1s", func(t *testing.T) string { return searched(t, 7, nil).answer(0) }},
		{"the replica does not answer", "warn, retry 1s", func(t *testing.T) string {
			return searched(t, 7, nil).step(dropEvent{kind: dropAnswered, node: 2, err: errDisk})
		}},
		{"another node answers", "", func(t *testing.T) string {
			return searched(t, 7, nil).step(dropEvent{kind: dropAnswered, node: 3, answers: []byte{1}})
		}},
		{"all requests were cancelled", "reconcile", func(t *testing.T) string {
			s := searched(t, 7, nil)
			s.m.decision.unclean = 0
			return s.answer(1)
		}},
		{"repaired since the change", "fence 1", former(true, 1)},
		{"not repaired since the change", "fence 0", former(true, 0)},
		{"never copied", fmt.Sprintf("phase %d, 0 items", dropFencing), former(false, 0)},
	}
}

func removalCases() []dropCase {
	removed := func(t *testing.T, err error) (*dropSteps, string) {
		s := fencing(t)
		s.fencedAll()
		s.step(dropEvent{kind: dropRemoved})
		last := s.step(dropEvent{kind: dropRemoved, err: err})
		return s, last + "; " + s.step(dropEvent{kind: dropUnfenced})
	}
	asked := &cleanup{}
	return []dropCase{
		{"fenced", "0: 0/1, drop table", func(t *testing.T) string { return fencing(t).fencedAll() }},
		{"held again", "unfence; warn, retry 1s", func(t *testing.T) string {
			s := fencing(t)
			return s.step(dropEvent{kind: dropFenced}) + "; " + s.step(dropEvent{kind: dropUnfenced})
		}},
		{"a request while the fence is removed", "", func(t *testing.T) string {
			s := fencing(t)
			s.step(dropEvent{kind: dropFenced})
			return s.step(dropEvent{kind: dropRequested, cleanup: asked})
		}},
		{"a table is removed", "drop states of ks", func(t *testing.T) string {
			s := fencing(t)
			s.fencedAll()
			return s.step(dropEvent{kind: dropRemoved})
		}},
		{"all is removed", "unfence; clean 7", func(t *testing.T) string {
			_, got := removed(t, nil)
			return got
		}},
		{"a removal fails", "unfence; warn, retry 1s", func(t *testing.T) string {
			_, got := removed(t, errDisk)
			return got
		}},
		{"reported", "reconcile", func(t *testing.T) string {
			s, _ := removed(t, nil)
			return s.step(dropEvent{kind: dropReported})
		}},
		{"not reported", "warn, retry 1s", func(t *testing.T) string {
			s, _ := removed(t, nil)
			return s.step(dropEvent{kind: dropReported, err: errDisk})
		}},
		{"former data are settled", "unfence; settle ks 6, answer 1 <nil>, reconcile", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropRequested, cleanup: &cleanup{}})
			s.confirmed(0, map[string]*FormerData{"ks": {Epoch: 6, Since: 5, Reachable: true}})
			s.step(dropEvent{kind: dropSearched})
			return s.step(dropEvent{kind: dropFenced}) + "; " + s.step(dropEvent{kind: dropUnfenced})
		}},
	}
}

func stopCases() []dropCase {
	stop := dropEvent{kind: dropStopped}
	closed := errDropsClosed.Error()
	return []dropCase{
		{"a cleanup waits", "answer 1 " + closed, func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropRequested, cleanup: &cleanup{}})
			return s.step(stop)
		}},
		{"a cleanup after the stop", "answer 1 " + closed, func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(stop)
			return s.step(dropEvent{kind: dropRequested, cleanup: &cleanup{}})
		}},
		{"unclean after the stop", "", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(stop)
			return s.step(dropEvent{kind: dropRequested})
		}},
		{"an answer after the stop", "", func(t *testing.T) string {
			s := searched(t, 7, nil)
			number := s.m.awaited
			s.step(stop)
			return s.step(dropEvent{kind: dropAnswered, number: number, node: 2, answers: []byte{1}})
		}},
		{"a pause ends after the stop", "", func(t *testing.T) string {
			s := searched(t, 7, nil)
			s.answer(0)
			number := s.m.awaited
			s.step(stop)
			return s.step(dropEvent{kind: dropResumed, number: number})
		}},
		{"fenced after the stop", "unfence", func(t *testing.T) string {
			s := fencing(t)
			s.step(stop)
			return s.fencedAll()
		}},
		{"removed after the stop", "unfence", func(t *testing.T) string {
			s := fencing(t)
			s.fencedAll()
			s.step(stop)
			return s.step(dropEvent{kind: dropRemoved})
		}},
		{"a check after the stop", "", func(t *testing.T) string {
			s := newDropSteps(t)
			s.step(dropEvent{kind: dropGained})
			s.step(stop)
			return s.step(dropEvent{kind: dropChecked, repaired: []GainedData{{Keyspace: "ks"}}})
		}},
	}
}
