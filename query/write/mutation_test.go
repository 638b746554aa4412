package write

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/cql"
	"cqld/internal/testclock"
	"cqld/internal/uuid"
	"cqld/query/execution"
	"cqld/query/function"
	"cqld/query/term"
	"cqld/query/testschema"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
)

// TestMutations checks the mutations of statements that read nothing: cells, tombstones, times to live, deletions of
// rows, ranges and collections, and errors that depend on values. The timestamp is 1,000 µs if USING has none, and the
// time is 50 s.
func TestMutations(t *testing.T) {
	s := testschema.New(t, "CREATE TYPE u (x int, y text)",
		"CREATE TABLE t (a int, c int, v int, b blob, l list<int>, m map<text, int>, e set<int>, f frozen<u>, g u, "+
			"s int STATIC, PRIMARY KEY (a, c))",
		"CREATE TABLE n (a int, b text, v int, PRIMARY KEY ((a, b)))",
		"CREATE TABLE n2 (a int PRIMARY KEY, v int) WITH default_time_to_live = 100",
		"CREATE TABLE counters (a int PRIMARY KEY, v counter)")
	datadriven.RunTest(t, "testdata/mutation.txt", func(t *testing.T, d *datadriven.TestData) string {
		out, err := mutations(s, d.Input)
		if err != nil {
			out += fmt.Sprintf("%T: %v\n", err, err)
		}
		return out
	})
}

// fixedTimestamps always returns the same timestamp.
type fixedTimestamps int64

func (f fixedTimestamps) Next() int64 { return int64(f) }

// mutations compiles a statement, builds its mutations and describes them.
func mutations(s *schema.Schema, text string) (string, error) {
	stmt, err := cql.Parse(text)
	if err != nil {
		return "", err
	}
	var name cql.QualifiedName
	switch stmt := stmt.(type) {
	case *cql.Insert:
		name = stmt.Table
	case *cql.InsertJSON:
		name = stmt.Table
	case *cql.Update:
		name = stmt.Table
	case *cql.Delete:
		name = stmt.Table
	}
	table := s.Table("ks", name.Name)
	clock := new(testclock.Clock)
	clock.Advance(50 * time.Second)
	writer := New(Options{Services: &execution.Services{Clock: clock, IDs: uuid.New(rand.NewPCG(1, 2)),
		Timestamps: fixedTimestamps(1000)}})
	m, err := writer.Compile(&term.Compiler{Schema: s, Functions: function.New(), Keyspace: "ks", Table: table}, stmt)
	if err != nil {
		return "", err
	}
	w := writer.writings.Get().(*writing)
	params := new(execution.Params)
	w.begin(writer, new(request.Request), params, nil, execution.Moment{Millis: 50_000, Seconds: 50})
	if err := w.stamp(m, w.chooseTimestamp(writer, params)); err != nil {
		return "", err
	}
	if err := w.expiry(m); err != nil {
		return "", err
	}
	var out strings.Builder
	err = w.build(m, func(x *row.Mutation) error { return describeMutation(&out, table, x) })
	return out.String(), err
}

// describeMutation appends the lines of a mutation.
func describeMutation(out *strings.Builder, t *schema.Table, m *row.Mutation) error {
	fmt.Fprintf(out, "partition %x\n", m.Key.Bytes)
	entries := m.Entries()
	for e := (row.Entry{}); entries.Next(&e); {
		r := row.NewRow()
		if err := row.DecodeRow(r, e.Value); err != nil {
			return err
		}
		switch e.Kind {
		case row.KindHeader:
			out.WriteString(" header\n")
		case row.KindRow:
			fmt.Fprintf(out, " row %x\n", e.Start)
		case row.KindRangeTombstone:
			fmt.Fprintf(out, " range [%x, %x)\n", e.Start, e.End)
		}
		if l := r.Liveness; l.Timestamp != row.NoTimestamp {
			fmt.Fprintf(out, "  inserted @%d ttl %d until %d\n", l.Timestamp, l.TTL, l.LocalTime)
		}
		if d := r.Deletion; d.Timestamp != row.NoTimestamp {
			fmt.Fprintf(out, "  deleted @%d at %d\n", d.Timestamp, d.LocalTime)
		}
		for _, d := range r.Complex {
			fmt.Fprintf(out, "  %s: elements deleted @%d at %d\n", columnName(t, d.Column), d.Timestamp, d.LocalTime)
		}
		for _, c := range r.Cells {
			path := fmt.Sprintf("[%x]", c.Path)
			if c.Path == nil {
				path = ""
			}
			value := fmt.Sprintf("%x", c.Value)
			if c.Tombstone {
				value = "tombstone"
			}
			fmt.Fprintf(out, "  %s%s = %s @%d ttl %d at %d\n", columnName(t, c.Column), path, value, c.Timestamp, c.TTL,
				c.LocalTime)
		}
	}
	return entries.Err()
}

// columnName returns the name of the column with an id.
func columnName(t *schema.Table, id schema.ColumnID) string {
	for _, c := range t.Columns() {
		if c.ID == id {
			return c.Name
		}
	}
	return fmt.Sprintf("column %d", id)
}
