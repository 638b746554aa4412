package memory

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The commands of testdata/division are: divide figure=MiB [nodes=N] [cache=MiB] [memtable=MiB] [requests=MiB]
// [frame=MiB] [rows=MiB] [graph=MiB], which divides the figure among nodes of one machine, and then in each.
func TestDivision(t *testing.T) {
	datadriven.RunTest(t, "testdata/division", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			figure, nodes := int64(0), int64(1)
			set := Figures{RowCache: -1}
			for word := range strings.FieldsSeq(line) {
				var n int64
				name, value, _ := strings.Cut(word, "=")
				if _, err := fmt.Sscan(value, &n); err != nil {
					d.Fatalf(t, "%s: %v", word, err)
				}
				switch name {
				case "figure":
					figure = n * mib
				case "nodes":
					nodes = n
				case "cache":
					set.BlockCache = n * mib
				case "memtable":
					set.MemTable = n * mib
				case "requests":
					set.Requests = n * mib
				case "frame":
					set.Frame = n * mib
				case "rows":
					set.RowCache = n * mib
				case "graph":
					set.Graph = n * mib
				}
			}
			v, err := Divide(figure/nodes, "the test", set)
			fmt.Fprintf(&b, "%s\n", strings.TrimSpace(line))
			if err != nil {
				fmt.Fprintf(&b, "  %v\n", err)
				continue
			}
			for part := range Parts {
				fmt.Fprintf(&b, "  %-22s %6d MiB\n", part, v.Part[part]/mib)
			}
			fmt.Fprintf(&b, "  %-22s %6d MiB\n  %-22s %6d MiB\n", "sum", v.Sum()/mib, "one memtable", v.MemTable()/mib)
		}
		return b.String()
	})
}

// The sum of the parts is at most the figure, whatever is configured, and no part is without memory.
func TestDivisionStaysBelowTheFigure(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func(figure int64) int64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return r.Int64N(figure) + 1
	}
	divided := 0
	for range 100_000 {
		figure := int64(1) << (20 + r.IntN(20))
		figure += r.Int64N(figure)
		set := Figures{some(figure / 2), some(figure / 10), some(figure / 2), some(figure / 20), some(figure / 2),
			some(figure/2) - 1}
		d, err := Divide(figure, "the test", set)
		if err != nil {
			continue
		}
		divided++
		if d.Sum() > figure {
			t.Fatalf("%d of %d: %+v, %+v", d.Sum(), figure, set, d)
		}
		for p, n := range d.Part {
			if n <= 0 && (Part(p) != RowCache || set.RowCache != 0) {
				t.Fatalf("%v has %d of %d: %+v", Part(p), n, figure, set)
			}
		}
		if set.BlockCache > 0 && d.Part[BlockCache] != set.BlockCache || set.MemTable > 0 &&
			d.MemTable() != set.MemTable ||
			set.Frame > 0 && d.Part[Requests]/frameDivisor < set.Frame {
			t.Fatalf("%+v does not have %+v", d, set)
		}
	}
	if divided < 10_000 {
		t.Errorf("only %d divisions", divided)
	}
}
