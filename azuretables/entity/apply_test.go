package entity_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/paxos"
)

// TestTransactionIsAtomic checks that a transaction reports its first failing operation and applies none.
func TestTransactionIsAtomic(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	r.apply("things", op(entity.Insert, "p", "b", text("v", "old")))
	for _, c := range []struct {
		index int
		code  odata.Code
		ops   []entity.Operation
	}{
		{1, odata.EntityAlreadyExists, []entity.Operation{op(entity.Insert, "p", "z"), op(entity.Insert, "p", "b"),
			op(entity.Delete, "p", "a")}},
		{1, odata.ResourceNotFound, []entity.Operation{op(entity.InsertOrReplace, "p", "b"),
			op(entity.Delete, "p", "c"), op(entity.Update, "p", "a")}},
		{0, odata.UpdateConditionNotSatisfied, []entity.Operation{{Kind: entity.Update, Conditional: true, Match: 1,
			Entity: odata.Entity{PartitionKey: "p", RowKey: "b"}}, op(entity.Insert, "p", "a")}},
		{2, odata.InvalidDuplicateRow, []entity.Operation{op(entity.Insert, "p", "x"), op(entity.Insert, "p", "y"),
			op(entity.Merge, "p", "x")}},
		{1, odata.CommandsInBatchActOnDifferentPartitions,
			[]entity.Operation{op(entity.Insert, "p", "x"), op(entity.Insert, "q", "x")}},
		{1, odata.DuplicatePropertiesSpecified, []entity.Operation{op(entity.Insert, "p", "x"),
			op(entity.Insert, "p", "y", text("a", "1"), text("a", "2"))}},
		{0, odata.InvalidInput, []entity.Operation{{Kind: entity.Insert,
			Entity: odata.Entity{PartitionKey: "p", RowKey: "x"}, TTL: -1}}},
		{0, odata.KeyValueTooLarge, []entity.Operation{op(entity.Insert, "p", strings.Repeat("x", 1<<16))}},
	} {
		err := r.refuse(c.code, "things", c.ops...)
		var failed *entity.Failed
		if !errors.As(err, &failed) || failed.Index != c.index {
			t.Errorf("%s: %v, want the error of %d", c.code, err, c.index)
		}
	}
	page, err := r.nodes[0].store.Query(anyone(), account, "things", &entity.Query{})
	if err != nil || len(page.Entities) != 1 || show(&page.Entities[0]) != `p/b v:Edm.String="old"` {
		t.Error(page, err)
	}
}

// TestEntitiesAreLimited checks that the limits also apply to the result of a merge.
func TestEntitiesAreLimited(t *testing.T) {
	r := newTestRing(t, 1, func(o *entity.Options) { o.Limits.Properties, o.Limits.EntityBytes = 3, 1000 })
	r.create("Things")
	r.apply("things", op(entity.Insert, "p", "r", text("a", "x"), text("b", "x")))
	r.refuse(odata.TooManyProperties, "things", op(entity.Merge, "p", "r", text("c", "x"), text("d", "x")))
	r.apply("things", op(entity.Merge, "p", "r", text("a", "y"), text("c", "x")))
	r.refuse(odata.TooManyProperties, "things", op(entity.InsertOrReplace, "p", "r", text("a", "x"), text("b", "x"),
		text("c", "x"), text("d", "x")))
	long := strings.Repeat("x", 300)
	r.apply("things", op(entity.Update, "p", "r", text("a", long)))
	r.refuse(odata.EntityTooLarge, "things", op(entity.Merge, "p", "r", text("b", long)))
	r.refuse(odata.EntityTooLarge, "things", op(entity.InsertOrReplace, "p", "r", text("a", long), text("b", long)))
	r.apply("things", op(entity.Merge, "p", "r", odata.Property{Name: "b",
		Value: odata.Value{Type: odata.Binary, Bytes: []byte(long)}}))
}

// TestRacingTransactionsNeverInterleave checks concurrent transactions over the same pairs of entities: both entities
// of a pair have equal values, and no increment is lost.
func TestRacingTransactionsNeverInterleave(t *testing.T) {
	r := newTestRing(t, 3)
	r.create("Things")
	r.apply("things", op(entity.Insert, "p", "a", number("n", 0)), op(entity.Insert, "p", "b", number("n", 0)))
	const workers, rounds = 6, 12
	var unknown atomic.Int64
	var wg sync.WaitGroup
	for i := range workers {
		s := r.nodes[i%3].store
		wg.Go(func() {
			for done := 0; done < rounds; {
				a, err := s.Get(anyone(), account, "things", "p", "a", nil)
				if err != nil {
					t.Error(err)
					return
				}
				b, err := s.Get(anyone(), account, "things", "p", "b", nil)
				if err != nil {
					t.Error(err)
					return
				}
				n := a.Properties[0].Value.Int
				first, second := op(entity.Merge, "p", "a", number("n", n+1)),
					op(entity.Update, "p", "b", number("n", n+1))
				first.Conditional, first.Match = true, a.Timestamp
				second.Conditional, second.Match = true, b.Timestamp
				_, err = s.Apply(anyone(), account, "things", []entity.Operation{first, second})
				var lost *coordinator.CASUnknown
				if errors.As(err, &lost) { // applied or not, other writers have changed both since
					unknown.Add(1)
					continue
				}
				switch code(err) {
				case "":
					done++
					if a.Timestamp != b.Timestamp || b.Properties[0].Value.Int != n {
						t.Errorf("changed together: %s at %d, %s at %d", show(a), a.Timestamp, show(b), b.Timestamp)
					}
				case odata.UpdateConditionNotSatisfied:
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, rk := range []string{"a", "b"} {
		e := r.get("things", "p", rk)
		if n := e.Properties[0].Value.Int; n < workers*rounds || n > workers*rounds+unknown.Load() {
			t.Errorf("%s, want %d, and perhaps some of %d", show(e), workers*rounds, unknown.Load())
		}
	}
}

// TestRacingInsertsHaveOneWinner checks that exactly one of several concurrent inserts of an entity succeeds.
func TestRacingInsertsHaveOneWinner(t *testing.T) {
	r := newTestRing(t, 3)
	r.create("Things")
	for round := range 5 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		wins, by, doubt := 0, -1, map[int]bool{}
		for i := range 9 {
			wg.Go(func() {
				_, err := r.nodes[i%3].store.Apply(anyone(), account, "things",
					[]entity.Operation{op(entity.Insert, "p", fmt.Sprint(round), number("by", int64(i)))})
				mu.Lock()
				defer mu.Unlock()
				var unknown *coordinator.CASUnknown
				switch {
				case err == nil:
					wins, by = wins+1, i
				case errors.As(err, &unknown): // other writers followed immediately: the outcome is unknown
					doubt[i] = true
				case code(err) != odata.EntityAlreadyExists:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		there := int(r.get("things", "p", fmt.Sprint(round)).Properties[0].Value.Int)
		if wins > 1 || wins == 1 && there != by || wins == 0 && !doubt[there] {
			t.Errorf("%d inserted it, one of them %d; it is of %d; in doubt are %v", wins, by, there, doubt)
		}
	}
}

// TestLostResponseIsResolved checks that a change whose response was lost is neither applied twice nor reported as
// failed: the store determines its outcome.
func TestLostResponseIsResolved(t *testing.T) {
	r := newTestRing(t, 3)
	r.create("Things")
	n := r.nodes[0]
	r.apply("things", op(entity.Insert, "p", "n", number("v", 0)))
	rnd := rand.New(rand.NewPCG(1, 1))
	n.faults.read = func(req *coordinator.ReadRequest) error {
		if req.Consistency.IsSerial() && rnd.IntN(2) == 0 { // contention with the read that determines the outcome
			return &coordinator.ReadTimeout{}
		}
		return nil
	}
	n.faults.cas = func(req *paxos.CASRequest, done func(bool, []byte, error)) {
		switch rnd.IntN(4) {
		case 0: // applied, but the outcome is reported as unknown
			n.proposer.CAS(req, func(bool, []byte, error) { done(false, nil, &coordinator.CASUnknown{}) })
		case 1: // decided, but not acknowledged
			n.proposer.CAS(req, func(applied bool, page []byte, err error) {
				if applied && err == nil {
					err = &coordinator.WriteTimeout{Type: coordinator.WriteSimple}
				}
				done(applied, page, err)
			})
		case 2: // certainly not applied
			done(false, nil, &coordinator.WriteTimeout{Type: coordinator.WriteCAS})
		default:
			n.proposer.CAS(req, done)
		}
	}
	for i := range 60 {
		e := r.get("things", "p", "n")
		o := op(entity.Update, "p", "n", number("v", int64(i+1)))
		o.Conditional, o.Match = true, e.Timestamp
		stamps, err := n.store.Apply(anyone(), account, "things",
			[]entity.Operation{o, op(entity.Insert, "p", fmt.Sprint(i))})
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if e := r.get("things", "p", "n"); e.Properties[0].Value.Int != int64(i+1) || e.Timestamp != stamps[0] {
			t.Fatalf("%d: %s at %d, reported %d", i, show(e), e.Timestamp, stamps[0])
		}
		if _, err := n.store.Apply(anyone(), account, "things",
			[]entity.Operation{op(entity.Delete, "p", fmt.Sprint(i))}); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// TestLostResponseWithUnknownOutcome checks that the error stays if another writer has changed the entities since, and
// the outcome is therefore unknown.
func TestLostResponseWithUnknownOutcome(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	n := r.nodes[0]
	lost := &coordinator.CASUnknown{Received: 1}
	n.faults.cas = func(req *paxos.CASRequest, done func(bool, []byte, error)) {
		n.faults.cas = nil
		n.proposer.CAS(req, func(bool, []byte, error) {
			go func() {
				r.apply("things", op(entity.Merge, "p", "r", text("v", "other's")))
				done(false, nil, lost)
			}()
		})
	}
	lose := n.faults.cas
	_, err := n.store.Apply(anyone(), account, "things",
		[]entity.Operation{op(entity.Insert, "p", "r", text("v", "mine"))})
	if !errors.Is(err, error(lost)) {
		t.Error(err)
	}
	// Another entity of the same change proves the outcome.
	n.faults.cas = lose
	r.apply("things", op(entity.Update, "p", "r", text("v", "mine")), op(entity.Insert, "p", "s"))
	overloaded := &coordinator.Overloaded{What: "a test"}
	n.faults.cas = func(_ *paxos.CASRequest, done func(bool, []byte, error)) { done(false, nil, overloaded) }
	if _, err := n.store.Apply(anyone(), account, "things",
		[]entity.Operation{op(entity.Delete, "p", "r")}); !errors.Is(err, error(overloaded)) {
		t.Error(err)
	}
}

// TestImmediateFailuresBackOff checks that there are pauses between attempts that fail immediately, as on a full
// disk.
func TestImmediateFailuresBackOff(t *testing.T) {
	r := newTestRing(t, 1, func(o *entity.Options) { o.Timeouts.Change = 300 * time.Millisecond })
	r.create("Things")
	n := r.nodes[0]
	refused, tried := &coordinator.WriteTimeout{Type: coordinator.WriteCAS}, 0
	n.faults.cas = func(_ *paxos.CASRequest, done func(bool, []byte, error)) {
		tried++
		done(false, nil, refused)
	}
	_, err := n.store.Apply(anyone(), account, "things", []entity.Operation{op(entity.Insert, "p", "r")})
	if !errors.Is(err, error(refused)) || tried > 10 {
		t.Errorf("an insert was tried %d times: %v", tried, err)
	}
	tried = 0
	if err := n.store.DeletePartition(anyone(), account, "things", "p"); !errors.Is(err, error(refused)) || tried > 10 {
		t.Errorf("the deletion of a partition was tried %d times: %v", tried, err)
	}
}

// TestPartitionIsDeletedOnce checks the deletion of a partition whose response was lost: if it was applied, it is
// neither repeated, because other clients may have inserted since, nor reported as failed. If it was not applied, it is
// repeated.
func TestPartitionIsDeletedOnce(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	n := r.nodes[0]
	for _, made := range []bool{true, false} {
		p := fmt.Sprint("made ", made)
		r.apply("things", op(entity.InsertOrReplace, p, "before"))
		tried, lost := 0, &coordinator.CASUnknown{Received: 1}
		n.faults.cas = func(req *paxos.CASRequest, done func(bool, []byte, error)) {
			n.faults.cas = func(req *paxos.CASRequest, done func(bool, []byte, error)) {
				tried++
				n.proposer.CAS(req, done)
			}
			if !made {
				_, _, err := req.Update(nil, time.Now().Add(-time.Second).UnixMicro())
				r.apply("things", op(entity.InsertOrReplace, p, "meanwhile"))
				tried = 0
				done(false, nil, errors.Join(err, lost))
				return
			}
			n.proposer.CAS(req, func(bool, []byte, error) {
				go func() {
					r.apply("things", op(entity.Insert, p, "meanwhile"))
					tried = 0
					done(false, nil, lost)
				}()
			})
		}
		err := n.store.DeletePartition(anyone(), account, "things", p)
		if err != nil || made != (tried == 0) {
			t.Errorf("made %v: tried %d times more, %v", made, tried, err)
		}
		n.faults.cas = nil
		if _, err := n.store.Get(anyone(), account, "things", p, "before", nil); code(err) != odata.ResourceNotFound {
			t.Error(err)
		}
		if _, err := n.store.Get(anyone(), account, "things", p, "meanwhile", nil); (err == nil) != made {
			t.Errorf("made %v: what was inserted meanwhile: %v", made, err)
		}
	}
}

// TestAcknowledgedEntitiesSurviveACrash checks that acknowledged entities exist after a crash.
func TestAcknowledgedEntitiesSurviveACrash(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	n := r.nodes[0]
	for i := range 50 {
		r.apply("things", op(entity.Insert, "p", fmt.Sprintf("%03d", i), number("i", int64(i))))
	}
	r.apply("things", op(entity.Delete, "p", "007"), op(entity.Update, "p", "008", text("now", "text")))
	fs := n.fs.CrashClone(crashConfig())
	r.close()
	n.fs = fs
	n.open()
	page, err := n.store.Query(anyone(), account, "things", &entity.Query{})
	if err != nil || len(page.Entities) != 49 {
		t.Fatal(err, len(page.Entities))
	}
	if got := show(&page.Entities[7]); got != `p/008 now:Edm.String="text"` {
		t.Error(got)
	}
}

func TestDeletePartition(t *testing.T) {
	r := newTestRing(t, 3)
	r.create("Things")
	for _, pk := range []string{"", "a", "b"} {
		r.apply("things", op(entity.Insert, pk, "1"), op(entity.Insert, pk, "2"))
	}
	s := r.nodes[1].store
	for _, pk := range []string{"", "b", "none"} {
		if err := s.DeletePartition(anyone(), account, "things", pk); err != nil {
			t.Error(err)
		}
	}
	page, err := s.Query(anyone(), account, "things", &entity.Query{})
	if err != nil || len(page.Entities) != 2 || page.Entities[0].PartitionKey != "a" {
		t.Error(page, err)
	}
	r.apply("things", op(entity.Insert, "b", "1"))
	if got := show(r.get("things", "b", "1")); got != "b/1" {
		t.Error(got)
	}
}

// TestAllocationsOfAChange checks that a change allocates only its result and what replicas may keep, and nothing per
// property.
func TestAllocationsOfAChange(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget on purpose")
	}
	s, _ := newHollow(t, 0)
	hundred := hundredInserts(strings.Repeat("x", 600))
	for _, c := range []struct {
		ops  []entity.Operation
		most float64
	}{{hundred[:1], 6}, {hundred, 20}} {
		n := testing.AllocsPerRun(100, func() {
			if _, err := s.Apply(anyone(), account, "Things", c.ops); err != nil {
				t.Fatal(err)
			}
		})
		if n > c.most {
			t.Errorf("%d inserts: %.0f allocations", len(c.ops), n)
		}
	}
}

// TestTransactionsReadAllTheirRows checks that a transaction is refused if its rows exceed the page that its round
// reads: rows after the page must not be treated as missing.
func TestTransactionsReadAllTheirRows(t *testing.T) {
	r := newTestRing(t, 1)
	r.create("Things")
	const rows = 10 // of 480 KiB each: a page of 4 MiB ends after nine
	old, now := text("v", strings.Repeat("x", 480<<10)), text("w", "new")
	for i := range rows {
		r.apply("things", op(entity.Insert, "p", fmt.Sprint(i), old))
	}
	last := fmt.Sprint(rows - 1)
	for name, kind := range map[string]entity.Kind{"insert": entity.Insert, "delete": entity.Delete,
		"replace": entity.InsertOrReplace, "merge": entity.Merge} {
		var ops []entity.Operation
		for i := range rows - 1 {
			ops = append(ops, op(entity.Merge, "p", fmt.Sprint(i), now))
		}
		err := r.refuse(odata.InvalidInput, "things", append(ops, op(kind, "p", last, now))...)
		if err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: %v", name, err)
		}
		if e := r.get("things", "p", "0"); len(e.Properties) != 1 {
			t.Fatalf("%s: the refused transaction changed %d properties", name, len(e.Properties))
		}
	}
	// A page that is full after the last row of the transaction has all of them.
	var fits []entity.Operation
	for i := range rows - 1 {
		fits = append(fits, op(entity.Delete, "p", fmt.Sprint(i)))
	}
	r.apply("things", fits...)
	r.apply("things", op(entity.Merge, "p", last, now))
	if e := r.get("things", "p", last); len(e.Properties) != 2 {
		t.Errorf("%d properties after a merge", len(e.Properties))
	}
}
