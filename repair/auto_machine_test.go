package repair

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/schema"
	"cqld/simulation/testcluster"
	"cqld/types"
)

// autoSteps executes steps of one of Auto's machines on node 1 of three, and writes their effects as text. Tables ks.t0
// and ks.t1 have one replica; node 1 is the first replica of two ranges.
type autoSteps struct {
	v    *stepView
	o    AutoOptions
	m    autoMachine
	open []autoEffect // whose event has not come yet
	now  time.Duration
}

func newAutoSteps(t testing.TB, m func(s *autoSteps) autoMachine) *autoSteps {
	s := &autoSteps{now: time.Hour, o: AutoOptions{Interval: time.Hour, Delay: time.Minute,
		RetryAfter: 50 * time.Second}}
	s.v = &stepView{dead: map[ring.NodeID]bool{}, schema: autoCatalog(t, 2), topology: ring.NewTopology(1, stepNodes())}
	s.m = m(s)
	return s
}

// autoCatalog returns a catalog of n tables, each repaired at most once an hour.
func autoCatalog(t testing.TB, n int) *schema.Schema {
	changes := []schema.Change{
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 1}}}
	for i := range n {
		changes = append(changes, &schema.CreateTable{Keyspace: "ks", Table: fmt.Sprint("t", i),
			ID: schema.UUID{byte(i + 1)}, Options: schema.DefaultOptions(),
			Columns: testcluster.Columns(types.Native(types.Text))})
	}
	return testcluster.Catalog(t, changes...)
}

func newSchedule(s *autoSteps) autoMachine {
	return &scheduleMachine{view: s.v, o: &s.o, tables: map[schema.StorageID]*autoTable{}}
}

func newDirty(s *autoSteps) autoMachine {
	return &dirtyMachine{view: s.v, o: &s.o, tables: map[schema.StorageID]*dirtyTable{}}
}

// table returns the id of a table.
func (s *autoSteps) table(i int) schema.StorageID {
	return s.v.schema.Table("ks", fmt.Sprint("t", i)).StorageID
}

// drop drops a table.
func (s *autoSteps) drop(t testing.TB, i int) {
	next, err := schema.Apply(s.v.schema, &schema.DropTable{Keyspace: "ks", Table: fmt.Sprint("t", i)})
	if err != nil {
		t.Fatal(err)
	}
	s.v.schema = next
}

// step returns the effects of an event as text.
func (s *autoSteps) step(ev autoEvent) string {
	ev.now, ev.wall = s.now, int64(s.now)
	out := s.m.step(&ev, nil)
	s.m.check()
	var text []string
	for i := range out {
		if out[i].number != 0 {
			s.open = append(s.open, out[i])
		}
		text = append(text, s.describe(&out[i]))
	}
	return strings.Join(text, ", ")
}

// describe returns an effect as text.
func (s *autoSteps) describe(e *autoEffect) string {
	switch e.kind {
	case autoStore:
		if e.value == nil {
			return "delete"
		}
		return "store"
	case autoRepair:
		return fmt.Sprintf("repair %d %v", s.index(e.job.Table), e.job.Range)
	case autoPause:
		return fmt.Sprint("pause ", e.after)
	case autoNote:
		return "note"
	case autoCancel:
		return "cancel"
	}
	return "unknown"
}

// index returns the number in the name of a table.
func (s *autoSteps) index(id schema.StorageID) int {
	for i := range 2 {
		if t := s.v.schema.Table("ks", fmt.Sprint("t", i)); t != nil && t.StorageID == id {
			return i
		}
	}
	return -1
}

// last returns the last effect of a kind that has an event.
func (s *autoSteps) last(kind autoEffectKind) *autoEffect {
	for i := len(s.open) - 1; i >= 0; i-- {
		if s.open[i].kind == kind {
			return &s.open[i]
		}
	}
	panic("there is no such effect")
}

// ended delivers the end of the last repair.
func (s *autoSteps) ended(rows int64, err error) string {
	return s.step(autoEvent{kind: autoRepaired, number: s.last(autoRepair).number, report: Report{Rows: rows},
		err: err})
}

// resume delivers the end of the last pause.
func (s *autoSteps) resume() string {
	e := s.last(autoPause)
	s.now += e.after
	return s.step(autoEvent{kind: autoResumed, number: e.number})
}

// lose delivers the loss of a hint.
func (s *autoSteps) lose(table, chunk int) string {
	return s.step(autoEvent{kind: autoLost, table: s.table(table), chunk: chunk})
}

// autoCase is a sequence of steps, and the effects of the last one.
type autoCase struct {
	name, want string
	last       func(s *autoSteps) string
}

func playAuto(t *testing.T, cases []autoCase, m func(s *autoSteps) autoMachine) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.last(newAutoSteps(t, m)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

var errAuto = errors.New("disk")

// TestStepsOfScheduledRepairs lists the effects of each event, in each state that matters.
func TestStepsOfScheduledRepairs(t *testing.T) {
	started := func(s *autoSteps) string {
		s.step(autoEvent{kind: autoStarted, delay: time.Second})
		return s.resume() // the first range of t0
	}
	both := func(s *autoSteps) string {
		started(s)
		return s.ended(0, nil)
	}
	all := func(s *autoSteps) string { // ranges of both tables
		both(s)
		s.ended(0, nil)
		s.ended(0, nil)
		return s.ended(0, nil)
	}
	first, second := ring.Range{Start: ring.MinToken, End: 1000}, ring.Range{Start: 3000, End: ring.MinToken}
	playAuto(t, []autoCase{
		{"start", "pause 10s", func(s *autoSteps) string {
			return s.step(autoEvent{kind: autoStarted, delay: time.Second})
		}},
		{"nothing before the start", "", func(s *autoSteps) string { return s.step(autoEvent{kind: autoUnblocked}) }},
		{"before the delay", "pause 10s", func(s *autoSteps) string {
			s.step(autoEvent{kind: autoStarted, delay: time.Minute})
			return s.resume()
		}},
		{"after the delay", fmt.Sprint("repair 0 ", first), started},
		{"the next range", fmt.Sprint("store, repair 0 ", second), both},
		{"the next table", fmt.Sprint("store, store, repair 1 ", first), func(s *autoSteps) string {
			both(s)
			return s.ended(0, nil)
		}},
		{"all are repaired", "store, store, pause 10s", all},
		{"nothing is due", "pause 10s", func(s *autoSteps) string {
			all(s)
			return s.resume()
		}},
		{"due by time", fmt.Sprint("repair 1 ", first), func(s *autoSteps) string {
			all(s)
			s.now += time.Hour
			return s.resume()
		}},
		{"due by a change of the ring", fmt.Sprint("repair 1 ", first), func(s *autoSteps) string {
			all(s)
			s.v.topology = ring.NewTopology(2, stepNodes())
			s.step(autoEvent{kind: autoMoved, delay: time.Second})
			return s.resume()
		}},
		{"the ring changes", "", func(s *autoSteps) string {
			all(s)
			return s.step(autoEvent{kind: autoMoved, delay: time.Minute})
		}},
		{"the ring has just changed", "pause 10s", func(s *autoSteps) string {
			all(s)
			s.v.topology = ring.NewTopology(2, stepNodes())
			s.step(autoEvent{kind: autoMoved, delay: time.Minute})
			return s.resume()
		}},
		{"the ring changes during a repair", "store, pause 10s", func(s *autoSteps) string {
			started(s)
			s.v.topology = ring.NewTopology(2, stepNodes())
			s.step(autoEvent{kind: autoMoved, delay: time.Minute})
			return s.ended(0, nil)
		}},
		{"the repair begins again in another ring", fmt.Sprint("store, repair 0 ", first), func(s *autoSteps) string {
			started(s)
			s.v.topology = ring.NewTopology(2, stepNodes())
			return s.ended(0, nil)
		}},
		{"rows were sent", fmt.Sprint("store, note, repair 0 ", second), func(s *autoSteps) string {
			started(s)
			return s.ended(3, nil)
		}},
		{"a failure", fmt.Sprint("note, repair 1 ", first), func(s *autoSteps) string {
			started(s)
			return s.ended(0, errAuto)
		}},
		{"both fail", "note, pause 10s", func(s *autoSteps) string {
			started(s)
			s.ended(0, errAuto)
			return s.ended(0, errAuto)
		}},
		{"a node comes up", fmt.Sprint("repair 1 ", first), func(s *autoSteps) string {
			started(s)
			s.ended(0, errAuto)
			s.ended(0, errAuto)
			return s.step(autoEvent{kind: autoUnblocked})
		}},
		{"a node comes up during a repair", "", func(s *autoSteps) string {
			started(s)
			return s.step(autoEvent{kind: autoUnblocked})
		}},
		{"the table is unknown", fmt.Sprint("store, repair 0 ", second), func(s *autoSteps) string {
			started(s)
			return s.ended(0, &coordinator.UnknownTable{})
		}},
		{"a late end", "", func(s *autoSteps) string {
			started(s)
			late := *s.last(autoRepair)
			s.ended(0, nil)
			return s.step(autoEvent{kind: autoRepaired, number: late.number})
		}},
		{"a late pause", "", func(s *autoSteps) string {
			started(s)
			return s.step(autoEvent{kind: autoResumed, number: s.last(autoPause).number})
		}},
		{"stop", "cancel", func(s *autoSteps) string {
			started(s)
			return s.step(autoEvent{kind: autoStopped})
		}},
		{"the end after the stop", "", func(s *autoSteps) string {
			started(s)
			s.step(autoEvent{kind: autoStopped})
			return s.ended(0, ErrCancelled)
		}},
		{"success after the stop", "store", func(s *autoSteps) string {
			started(s)
			s.step(autoEvent{kind: autoStopped})
			return s.ended(3, nil)
		}},
		{"a pause after the stop", "", func(s *autoSteps) string {
			all(s)
			s.step(autoEvent{kind: autoStopped})
			return s.resume()
		}},
		{"a table is dropped", "delete, pause 10s", func(s *autoSteps) string {
			all(s)
			s.drop(t, 0)
			return s.resume()
		}},
	}, newSchedule)
}

// TestStepsOfDirtyRanges lists the effects of each event, in each state that matters.
func TestStepsOfDirtyRanges(t *testing.T) {
	start := autoEvent{kind: autoStarted}
	// begun has a repair of chunks 0 and 1 of t0 under way.
	begun := func(s *autoSteps) string {
		s.step(start)
		s.lose(0, 0)
		s.lose(0, 1)
		return s.resume()
	}
	// waiting has chunk 128 of t0, whose replica is node 2 or 3, dirty, and the nodes are dead.
	waiting := func(s *autoSteps) string {
		s.v.dead[2], s.v.dead[3] = true, true
		s.step(start)
		s.lose(0, 128)
		return s.resume()
	}
	playAuto(t, []autoCase{
		{"start", "", func(s *autoSteps) string { return s.step(start) }},
		{"a hint before the start", "store", func(s *autoSteps) string { return s.lose(0, 0) }},
		{"the start with a dirty range", fmt.Sprint("repair 0 ", chunkRange(0, 1)), func(s *autoSteps) string {
			s.lose(0, 0)
			return s.step(start)
		}},
		{"a hint", "store, pause 1s", func(s *autoSteps) string {
			s.step(start)
			return s.lose(0, 0)
		}},
		{"another hint of the chunk", "", func(s *autoSteps) string {
			s.step(start)
			s.lose(0, 0)
			return s.lose(0, 0)
		}},
		{"a hint of another chunk", "store", func(s *autoSteps) string {
			s.step(start)
			s.lose(0, 0)
			return s.lose(0, 1)
		}},
		{"after the pause", fmt.Sprint("repair 0 ", chunkRange(0, 2)), begun},
		{"repaired", "delete", func(s *autoSteps) string {
			begun(s)
			return s.ended(0, nil)
		}},
		{"rows were sent", "delete, note", func(s *autoSteps) string {
			begun(s)
			return s.ended(3, nil)
		}},
		{"a hint of a chunk that is repaired", "", func(s *autoSteps) string {
			begun(s)
			return s.lose(0, 1)
		}},
		{"it stays dirty", "store, pause 1s", func(s *autoSteps) string {
			begun(s)
			s.lose(0, 1)
			return s.ended(0, nil)
		}},
		{"and is repaired again", fmt.Sprint("repair 0 ", chunkRange(1, 2)), func(s *autoSteps) string {
			begun(s)
			s.lose(0, 1)
			s.ended(0, nil)
			return s.resume()
		}},
		{"a hint of another table", "store", func(s *autoSteps) string {
			begun(s)
			return s.lose(1, 0)
		}},
		{"the next table", fmt.Sprint("delete, repair 1 ", chunkRange(0, 1)), func(s *autoSteps) string {
			begun(s)
			s.lose(1, 0)
			return s.ended(0, nil)
		}},
		{"many chunks", fmt.Sprint("repair 0 ", chunkRange(0, dirtyChunks)), func(s *autoSteps) string {
			for i := range 2 * dirtyChunks {
				s.lose(0, i)
			}
			return s.step(start)
		}},
		{"a failure", "note, pause 5s", func(s *autoSteps) string {
			begun(s)
			return s.ended(0, errAuto)
		}},
		{"a second failure", "note, pause 10s", func(s *autoSteps) string {
			begun(s)
			s.ended(0, errAuto)
			s.resume()
			return s.ended(0, errAuto)
		}},
		{"a hint after a failure", "store, pause 1s", func(s *autoSteps) string {
			begun(s)
			s.ended(0, errAuto)
			return s.lose(1, 0)
		}},
		{"a node comes up after a failure", fmt.Sprint("repair 0 ", chunkRange(0, 2)), func(s *autoSteps) string {
			begun(s)
			s.ended(0, errAuto)
			return s.step(autoEvent{kind: autoUnblocked})
		}},
		{"the replica is down", "note, pause 10s", waiting},
		{"it is still down", "pause 10s", func(s *autoSteps) string {
			waiting(s)
			return s.resume()
		}},
		{"another chunk does not wait", fmt.Sprint("repair 0 ", chunkRange(0, 1)), func(s *autoSteps) string {
			waiting(s)
			s.lose(0, 0)
			return s.resume()
		}},
		{"the replica comes up", fmt.Sprint("repair 0 ", chunkRange(128, 129)), func(s *autoSteps) string {
			waiting(s)
			clear(s.v.dead)
			return s.step(autoEvent{kind: autoUnblocked})
		}},
		{"the ring changes", fmt.Sprint("repair 0 ", chunkRange(128, 129)), func(s *autoSteps) string {
			waiting(s)
			s.v.topology = ring.NewTopology(2, stepNodes()[:1])
			return s.step(autoEvent{kind: autoMoved})
		}},
		{"the table is dropped", "delete", func(s *autoSteps) string {
			waiting(s)
			s.drop(t, 0)
			return s.resume()
		}},
		{"the table is unknown", "delete", func(s *autoSteps) string {
			begun(s)
			return s.ended(0, &coordinator.UnknownTable{})
		}},
		{"the table is not known yet", "pause 10s", func(s *autoSteps) string {
			s.step(start)
			s.step(autoEvent{kind: autoLost, table: 1 << 20})
			return s.resume()
		}},
		{"a late end", "", func(s *autoSteps) string {
			begun(s)
			late := s.last(autoRepair).number
			s.ended(0, nil)
			return s.step(autoEvent{kind: autoRepaired, number: late})
		}},
		{"stop", "cancel", func(s *autoSteps) string {
			begun(s)
			return s.step(autoEvent{kind: autoStopped})
		}},
		{"the end after the stop", "", func(s *autoSteps) string {
			begun(s)
			s.step(autoEvent{kind: autoStopped})
			return s.ended(0, ErrCancelled)
		}},
		{"success after the stop", "delete", func(s *autoSteps) string {
			begun(s)
			s.step(autoEvent{kind: autoStopped})
			return s.ended(3, nil)
		}},
		{"a hint after the stop", "store", func(s *autoSteps) string {
			s.step(start)
			s.step(autoEvent{kind: autoStopped})
			return s.lose(0, 0)
		}},
	}, newDirty)
}
