package query

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"cqld/cql"
	"cqld/internal/cputime"
	"cqld/internal/repetition"
	"cqld/internal/tier"
)

var repetitions = flag.Int("repetitions", 4000, "how often TestStatementsGrowLinearly repeats each production of "+
	"the grammar")

// growth is the ratio of the two sizes of a statement that TestStatementsGrowLinearly compares. Linear cost has this
// ratio, quadratic cost its square, 256.
const growth = 16

// effort is the work of one layer for a statement.
type effort struct {
	bytes uint64
	time  time.Duration // of processors
}

func (e effort) beyond(small effort) bool {
	// Below a megabyte and 50 ms, what does not depend on the size dominates.
	return e.bytes > 1<<20 && e.bytes > small.bytes*growth*3 || e.time > 50*time.Millisecond &&
		e.time > small.time*growth*8
}

func measured(f func()) effort {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := cputime.Process()
	f()
	took := cputime.Process() - began
	runtime.ReadMemStats(&after)
	return effort{after.TotalAlloc - before.TotalAlloc, took}
}

// TestStatementsGrowLinearly executes each production of the grammar with two numbers of repetitions, and compares what
// the parser, the formatter, the redaction for logs and the execution allocate, and their time: at most in proportion.
// A statement may be refused instead.
func TestStatementsGrowLinearly(t *testing.T) {
	tier.Long(t)
	if raceEnabled {
		t.Skip("the race detector distorts processor time and allocations")
	}
	most := *repetitions
	if testing.Short() {
		most /= 2
	}
	for _, production := range repetition.All() {
		t.Run(production.String(), func(t *testing.T) {
			for large := most; large/growth >= 10; large /= growth {
				compareEfforts(t, &production, large)
			}
		})
	}
}

// compareEfforts compares large repetitions of a production with growth times fewer.
func compareEfforts(t *testing.T, production *repetition.Production, large int) {
	small, more := map[string]effort{}, map[string]effort{}
	for range 5 { // a pause of the process does not count as growth
		for layer, e := range efforts(t, production, large/growth) {
			small[layer] = effort{max(e.bytes, small[layer].bytes), max(e.time, small[layer].time)}
		}
		for layer, e := range efforts(t, production, large) {
			if b, ok := more[layer]; ok {
				e = effort{min(e.bytes, b.bytes), min(e.time, b.time)}
			}
			more[layer] = e
		}
		if !grows(small, more, func(string, effort, effort) {}) {
			return
		}
	}
	grows(small, more, func(layer string, s, e effort) {
		t.Errorf("%s: %d repetitions took %d bytes and %v, %d times as many %d bytes and %v", layer, large/growth,
			s.bytes, s.time,
			growth, e.bytes, e.time)
	})
}

// grows reports whether the effort of a layer is out of proportion, and calls f for each.
func grows(small, more map[string]effort, f func(layer string, small, more effort)) (found bool) {
	for layer, e := range more {
		if s, ok := small[layer]; ok && e.beyond(s) {
			f(layer, s, e)
			found = true
		}
	}
	return found
}

// efforts returns what each layer used for a statement of n repetitions.
func efforts(t *testing.T, production *repetition.Production, n int) map[string]effort {
	node := newMatrixRoles(t)
	p, s := newProcessorWith(t, &modelStore{}, func(o *Options) {
		o.View, o.Changer, o.Roles = node, node,
			node.statements()
	},
		repetition.Schema()...)
	var err error
	for _, text := range []string{"CREATE ROLE r", "CREATE ROLE member"} {
		if _, err = p.Query(alice(), s, text, &Params{}); err != nil {
			t.Fatal(err)
		}
	}
	if production.Setup != nil {
		refused := ""
		setup := measured(func() {
			for _, text := range production.Setup(n) {
				if _, err = p.Query(alice(), s, text, &Params{}); err != nil {
					refused = text
					return
				}
			}
		})
		if err != nil { // a limit refuses the statement, which must not cost more than in proportion either
			if len(err.Error()) > len(refused)+1<<20 {
				t.Errorf("%d repetitions are refused with a message of %d bytes", n, len(err.Error()))
			}
			return map[string]effort{"refused definition": setup}
		}
	}
	text := production.Text(n)
	all := map[string]effort{"parser": measured(func() { _, err = cql.Parse(text) })}
	all["redaction"] = measured(func() { cql.Redact(text) })
	all["preparation"] = measured(func() { _, err = p.Prepare(alice(), s, text, "") })
	all["execution"] = measured(func() { _, err = p.Query(alice(), s, text, &Params{}) })
	if err != nil && len(err.Error()) > len(text)+1<<20 {
		t.Errorf("%d repetitions are refused with a message of %d bytes", n, len(err.Error()))
	}
	return all
}
