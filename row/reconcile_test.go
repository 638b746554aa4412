package row

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

const draws = 20_000

func TestReconcileIsCommutative(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range draws {
		a, b := randomRow(rng), randomRow(rng)
		sameRow(t, "a∪b = b∪a", reconciled(a, b), reconciled(b, a))
	}
}

func TestReconcileIsAssociative(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for range draws {
		a, b, c := randomRow(rng), randomRow(rng), randomRow(rng)
		sameRow(t, "(a∪b)∪c = a∪(b∪c)", reconciled(reconciled(a, b), c), reconciled(a, reconciled(b, c)))
	}
}

func TestReconcileIsIdempotent(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range draws {
		a, b := randomRow(rng), randomRow(rng)
		sum := reconciled(a, b)
		sameRow(t, "a∪a = a", reconciled(a, a), canonical(a))
		sameRow(t, "(a∪b)∪b = a∪b", reconciled(sum, b), sum)
		sameRow(t, "(a∪b) is canonical", canonical(sum), sum)
	}
}

func TestCoversMatchesReconcile(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	covered, changed := 0, 0
	for range draws {
		a, b := randomRow(rng), randomRow(rng)
		if rng.IntN(2) == 0 { // two random rows rarely cover each other
			*a = reconciled(a, b).Clone()
		}
		want := canonical(a)
		switch merged := reconciled(a, b); {
		case Covers(a, b):
			covered++
			sameRow(t, "a covers b: a∪b = a", merged, want)
		case !bytes.Equal(encoded(merged), encoded(want)):
			changed++
		}
	}
	if covered < draws/20 || changed < draws/20 {
		t.Errorf("only %d of %d were covered, %d changed the row", covered, draws, changed)
	}
}

// allCells returns one cell of every state that a rule of ReconcileCells distinguishes.
func allCells() (out []Cell) {
	for timestamp := range int64(2) {
		for local := range int64(2) {
			out = append(out, Cell{Timestamp: timestamp, Tombstone: true, LocalTime: 50 + local})
			for ttl := range int32(3) {
				for _, value := range []string{"", "a", "b"} {
					c := Cell{Timestamp: timestamp, TTL: ttl, Value: []byte(value)}
					if ttl > 0 {
						c.LocalTime = 50 + local
					}
					out = append(out, c)
				}
			}
		}
	}
	return out
}

func TestReconcileCellsIsATotalOrder(t *testing.T) {
	cells := allCells()
	wins := func(a, b *Cell) bool { return ReconcileCells(a, b) == a }
	same := func(a, b *Cell) bool {
		return a.Timestamp == b.Timestamp && a.TTL == b.TTL && a.LocalTime == b.LocalTime &&
			a.Tombstone == b.Tombstone && string(a.Value) == string(b.Value)
	}
	for i := range cells {
		for j := range cells {
			a, b := &cells[i], &cells[j]
			if !same(a, b) && wins(a, b) == wins(b, a) {
				t.Fatalf("the winner of %+v and %+v depends on their order", a, b)
			}
			for k := range cells {
				if c := &cells[k]; wins(a, b) && wins(b, c) && !wins(a, c) && !same(a, c) {
					t.Fatalf("%+v beats %+v beats %+v, but not the first the third", a, b, c)
				}
			}
		}
	}
}

// TestTiesAreDecidedAsCassandraDoes checks the rules of CASSANDRA-14592.
func TestTiesAreDecidedAsCassandraDoes(t *testing.T) {
	value := func(v string) Cell { return Cell{Timestamp: 5, Value: []byte(v)} }
	expiring := func(v string, ttl int32, at int64) Cell {
		return Cell{Timestamp: 5, Value: []byte(v), TTL: ttl, LocalTime: at}
	}
	tombstone := func(at int64) Cell { return Cell{Timestamp: 5, Tombstone: true, LocalTime: at} }
	later := value("a")
	later.Timestamp = 6
	for _, test := range []struct {
		name          string
		winner, loser Cell
	}{
		{"the later timestamp", later, tombstone(9)},
		{"a tombstone over a value", tombstone(1), value("z")},
		{"a tombstone over what expires later", tombstone(1), expiring("z", 9, 99)},
		{"what expires over what stays", expiring("a", 1, 1), value("z")},
		{"the later tombstone", tombstone(2), tombstone(1)},
		{"the later expiry", expiring("a", 1, 20), expiring("z", 9, 10)},
		{"the greater value", value("b"), value("a")},
		{"the greater value of equal expiry", expiring("b", 1, 10), expiring("a", 2, 10)},
	} {
		if ReconcileCells(&test.winner, &test.loser) != &test.winner ||
			ReconcileCells(&test.loser, &test.winner) != &test.winner {
			t.Errorf("%s does not win", test.name)
		}
	}
}

func TestPurgeAfterReconcileForgetsNothingThatCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for range draws {
		// A replica that purged a, and one that did not, return the same result.
		swept := canonical(randomRow(rng))
		unswept := swept.Clone()
		swept.Purge(101)
		swept.Purge(102)
		unswept.Purge(102)
		sameRow(t, "purge(purge(a)) = purge(a)", swept, &unswept)
	}
}

// TestLaterOfSimultaneousDeletionsIsKept compares with Cassandra's DeletionTime.supersedes: the deletion that was made
// later is kept, because its tombstone is kept longer.
func TestLaterOfSimultaneousDeletionsIsKept(t *testing.T) {
	early, late := Deletion{Timestamp: 5, LocalTime: 100}, Deletion{Timestamp: 5, LocalTime: 101}
	for _, d := range []Deletion{early.Max(late), late.Max(early)} {
		if d != late {
			t.Errorf("%+v is kept, want %+v", d, late)
		}
	}
}
