package value

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestTablesAreMaps compares random changes of a table with changes of a map.
func TestTablesAreMaps(t *testing.T) {
	keys := []Value{int64(1), int64(2), int64(3), int64(4), int64(5), int64(6), int64(7), "a", "b", 2.5}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := NewMeter(Limits{Steps: 1 << 40, Bytes: 1 << 40}, nil)
		table, model := NewTable(m), map[Value]Value{}
		for n := range 30 {
			k := keys[r.IntN(len(keys))]
			switch last := table.Len(); r.IntN(6) {
			case 0, 1, 2:
				v := Value(int64(n + 100))
				table.Set(m, k, v)
				model[k] = v
			case 3:
				table.Set(m, k, nil)
				delete(model, k)
			case 4:
				if last == 0 {
					continue
				}
				at := 1 + r.IntN(last)
				table.Insert(m, at, int64(n+100))
				for i := last; i >= at; i-- {
					move(model, int64(i), int64(i+1))
				}
				model[int64(at)] = int64(n + 100)
			case 5:
				if last == 0 {
					continue
				}
				at := 1 + r.IntN(last)
				table.Remove(m, at)
				for i := at; i < last; i++ {
					move(model, int64(i+1), int64(i))
				}
				delete(model, int64(last))
			}
			if difference := compareTable(m, table, model); difference != "" {
				t.Fatalf("seed %d, change %d: %s", seed, n, difference)
			}
		}
		clearWhileIterating(t, m, table, seed)
	}
}

func move(model map[Value]Value, from, to Value) {
	if v, ok := model[from]; ok {
		model[to] = v
		return
	}
	delete(model, to)
}

func compareTable(m *Meter, table *Table, model map[Value]Value) string {
	if table.Count() != len(model) {
		return fmt.Sprintf("%d keys, want %d", table.Count(), len(model))
	}
	if n := table.Len(); n > 0 && model[int64(n)] == nil || model[int64(n+1)] != nil && table.holes == 0 {
		return fmt.Sprintf("%d is no border", n)
	}
	seen := map[Value]bool{}
	for k, v, at := table.Next(m, 0); at >= 0; k, v, at = table.Next(m, at) {
		if seen[k] || model[k] != v || table.Get(m, k) != v {
			return fmt.Sprintf("%v is %v, and %v by its key, want %v", k, v, table.Get(m, k), model[k])
		}
		seen[k] = true
	}
	if len(seen) != len(model) {
		return fmt.Sprintf("an iteration has %d keys, want %d", len(seen), len(model))
	}
	return ""
}

// clearWhileIterating removes each key when an iteration arrives at it, as a script may, and continues after that key.
func clearWhileIterating(t *testing.T, m *Meter, table *Table, seed uint64) {
	t.Helper()
	wanted, n := table.Count(), 0
	for at := 0; ; n++ {
		k, _, next := table.Next(m, at)
		if next < 0 {
			break
		}
		table.Set(m, k, nil)
		var ok bool
		if at, ok = table.After(m, k); !ok {
			t.Fatalf("seed %d: key %v, just removed, has no position", seed, k)
		}
	}
	if n != wanted || table.Count() != 0 {
		t.Fatalf("seed %d: an iteration that removes saw %d keys of %d, and left %d", seed, n, wanted, table.Count())
	}
}
