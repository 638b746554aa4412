package entity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/azuretables/odata"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

func planTable(desc bool) *plan {
	text := types.Native(types.Text)
	t := &schema.Table{Keyspace: "acme", Name: "things", NextColumn: 2,
		PartitionKey: []*schema.Column{{ID: 0, Name: "PartitionKey", Kind: schema.PartitionKey, Type: text}},
		Clustering:   []*schema.Column{{ID: 1, Name: "RowKey", Kind: schema.Clustering, Type: text, Desc: desc}}}
	p := newPlan(t.Seal())
	p.build()
	return p
}

func (i interval) String() string {
	if s, ok := i.one(); ok {
		return strconv.Quote(s)
	}
	out := "[" + strconv.Quote(i.From) + ", "
	if i.Endless {
		return out + "…)"
	}
	return out + strconv.Quote(i.To) + ")"
}

// TestPlans shows how filters are read: the plan, the partitions and the rows of each, and whether everything read
// matches.
func TestPlans(t *testing.T) {
	limits := odata.DefaultLimits()
	limits.Comparisons = 1000
	datadriven.RunTest(t, "testdata/plans.txt", func(t *testing.T, d *datadriven.TestData) string {
		filter, err := odata.ParseFilter(strings.ReplaceAll(d.Input, "\n", " "), &limits)
		if err != nil {
			return err.Error() + "\n"
		}
		where := rectanglesOf(filter, false)
		list := partitionRanges(where.list)
		var b strings.Builder
		fmt.Fprint(&b, planOf(list))
		if !where.exact {
			b.WriteString(", filtered")
		}
		b.WriteString("\n")
		asc, desc := planTable(false), planTable(true)
		for _, s := range list {
			fmt.Fprintf(&b, "  partitions %s rows %s\n", s.partitions, s.rows)
			if d.HasArg("slices") {
				fmt.Fprintf(&b, "    ascending  %s\n    descending %s\n", sliceText(asc.slices(s.rows)),
					sliceText(desc.slices(s.rows)))
			}
		}
		return b.String()
	})
}

func sliceText(list []row.Slice) string {
	var out []string
	for _, s := range list {
		end := "…"
		if s.End != nil {
			end = fmt.Sprintf("%x", s.End)
		}
		exact := ""
		if s.Exact() {
			exact = " exact"
		}
		out = append(out, fmt.Sprintf("[%x, %s)%s", s.Start, end, exact))
	}
	return strings.Join(out, " ")
}

// TestSlicesAreTheIntervals checks that slices contain exactly the rows of their intervals, in clustering order,
// ascending and descending.
func TestSlicesAreTheIntervals(t *testing.T) {
	keys := []string{"", "\x00", "a", "a\x00", "a\x00\x01", "aa", "ab", "b", "é", "\uffff"}
	for _, desc := range []bool{false, true} {
		p := planTable(desc)
		for _, from := range keys {
			for _, to := range append(keys, "endless") {
				i := interval{From: from, To: to}
				if to == "endless" {
					i = interval{From: from, Endless: true}
				}
				if i.empty() {
					continue
				}
				s := p.slice(i)
				for _, k := range keys {
					if got := s.Contains(p.appendClustering(nil, []byte(k))); got != i.contains(k) {
						t.Errorf("descending %v: %q in %s: %v", desc, k, i, got)
					}
				}
				if _, one := i.one(); one != s.Exact() {
					t.Errorf("%s: exact %v", i, s.Exact())
				}
			}
		}
	}
}

func TestStartingWith(t *testing.T) {
	for _, p := range []string{"", "a", "a\xff", "\xff", "ab", "\U0010FFFF"} {
		i := startingWith(p)
		for _, s := range []string{"", "a", "a\xff", "a\xffz", "\xff", "\xff\xff", "ab", "aa", "b", "abz", "ac",
			"\U0010FFFF\U0010FFFF"} {
			if got := i.contains(s); got != strings.HasPrefix(s, p) {
				t.Errorf("%q begins with %q: %v", s, p, got)
			}
		}
	}
}

// TestPlansAreTheirFilters checks that the boxes of a filter contain all its matches, and, if they are exact, nothing
// else.
func TestPlansAreTheirFilters(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	keys := []string{"", "a", "a\x00", "aa", "ab", "b", "c", "é", "\uffff"}
	var filter func(depth int) odata.Expr
	filter = func(depth int) odata.Expr {
		if depth == 0 || rnd.IntN(4) == 0 {
			c := &odata.Comparison{Property: "PartitionKey", Op: odata.Op(1 + rnd.IntN(8)),
				Value: odata.Value{Type: odata.String, Bytes: []byte(keys[rnd.IntN(len(keys))])}}
			switch rnd.IntN(8) {
			case 0:
				c.Property, c.Value = "n", odata.Value{Type: odata.Int32, Int: int64(rnd.IntN(2))}
			case 1:
				return &odata.Constant{True: rnd.IntN(2) == 0}
			case 2, 3, 4:
				c.Property = "RowKey"
			}
			return c
		}
		switch rnd.IntN(5) {
		case 0:
			return &odata.Not{X: filter(depth - 1)}
		case 1, 2:
			return &odata.And{Left: filter(depth - 1), Right: filter(depth - 1)}
		}
		return &odata.Or{Left: filter(depth - 1), Right: filter(depth - 1)}
	}
	exact := 0
	for range 5000 {
		x := filter(rnd.IntN(9))
		where := rectanglesOf(x, false)
		list := partitionRanges(where.list)
		for i := 1; i < len(list); i++ {
			if before := list[i-1].partitions; before.Endless || before.To > list[i].partitions.From {
				t.Fatalf("%s: %v", odata.AppendFilter(nil, x), list)
			}
		}
		if where.exact {
			exact++
		}
		for _, pk := range keys {
			for _, rk := range keys {
				e := odata.Entity{PartitionKey: pk, RowKey: rk,
					Properties: []odata.Property{{Name: "n", Value: odata.Value{Type: odata.Int32, Int: 1}}}}
				read := false
				for _, s := range list {
					read = read || s.partitions.contains(pk) &&
						slices.ContainsFunc(s.rows, func(i interval) bool { return i.contains(rk) })
				}
				if matches := odata.Matches(x, &e); matches && !read || where.exact && read != matches {
					t.Fatalf("%s: %q/%q matches: %v, is read: %v, exact: %v", odata.AppendFilter(nil, x), pk, rk,
						matches, read, where.exact)
				}
			}
		}
	}
	if exact < 500 {
		t.Errorf("only %d of 5,000 were exact", exact)
	}
}

// TestMissingColumnsAreBounded checks that the search for new names in a $batch ends at the first column too many, and
// that a name with two types has two columns in one change.
func TestMissingColumnsAreBounded(t *testing.T) {
	const operations, properties, most = 100, 252, 2000
	var ops []Operation
	for i := range operations {
		op := Operation{Kind: Insert}
		for k := range properties {
			op.Entity.Properties = append(op.Entity.Properties, odata.Property{Name: fmt.Sprintf("p%d_%d", i, k),
				Value: odata.Value{Type: odata.String}})
		}
		ops = append(ops, op)
	}
	p := planTable(false)
	for _, most := range []int{most, 0, -1} {
		if missing, err := p.missing(ops, most); err != nil || len(missing) != max(most, 0)+1 {
			t.Errorf("at most %d: %d columns, %v", most, len(missing), err)
		}
	}
	ops = ops[:2]
	ops[1].Entity.Properties = slices.Clone(ops[0].Entity.Properties)
	ops[1].Entity.Properties[0].Value.Type = odata.Int32
	missing, err := p.missing(ops, most)
	if err != nil || len(missing) != properties+1 || missing[properties].Name != "p0_0"+typeSuffix(odata.Int32) {
		t.Errorf("%d columns, %v", len(missing), err)
	}
}
