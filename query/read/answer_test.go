package read

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/model"
	"cqld/internal/testclock"
	"cqld/internal/uuid"
	"cqld/internal/wire"
	"cqld/query/definition"
	"cqld/query/execution"
	"cqld/query/function"
	"cqld/query/term"
	"cqld/query/testschema"
	"cqld/query/write"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
)

// answers executes the commands of a file of answers, over a model of the replicas of one node.
type answers struct {
	schema   *schema.Schema
	tables   map[schema.StorageID]*model.Table
	reads    int // commands that the coordinator has received
	stamp    int64
	services *execution.Services
}

// Self implements execution.View.
func (*answers) Self() ring.NodeID { return 1 }

// Schema implements execution.View.
func (a *answers) Schema() *schema.Schema { return a.schema }

// Topology implements execution.View.
func (*answers) Topology() *ring.Topology {
	return ring.NewTopology(1, []*ring.Node{{ID: 1, Host: ring.HostID{1}, Datacenter: "dc1", Rack: "r1",
		State: ring.Normal, Internode: netip.MustParseAddrPort("127.0.0.1:7000"), Tokens: []ring.Token{0}}})
}

// Alive implements execution.View.
func (*answers) Alive(ring.NodeID) bool { return true }

// Next implements execution.Timestamps.
func (a *answers) Next() int64 {
	a.stamp++
	return a.stamp
}

func (a *answers) table(id schema.StorageID) *model.Table {
	if a.tables[id] == nil {
		a.tables[id] = &model.Table{}
	}
	return a.tables[id]
}

// Write implements request.Coordinator.
func (a *answers) Write(req *coordinator.WriteRequest, done func(error)) {
	for _, m := range req.Mutations {
		a.table(m.Table).Apply(m)
	}
	done(nil)
}

// Read implements request.Coordinator.
func (a *answers) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	a.reads++
	done(a.table(req.Command.Table).Read(req.Command), nil)
}

// Truncate implements request.Coordinator.
func (*answers) Truncate(_ *schema.Table, _ time.Duration, done func(error)) {
	done(errors.New("TRUNCATE is not part of this test"))
}

// compilerOf returns the compiler of a statement on a table.
func compilerOf(s *schema.Schema, table string) *term.Compiler {
	return &term.Compiler{Schema: s, Functions: function.New(), ResolveType: definition.ResolveType, Keyspace: "ks",
		Table: s.Table("ks", table)}
}

// define makes tables, without rows.
func (a *answers) define(t *testing.T, statements []string) {
	a.schema, a.tables = testschema.New(t, statements...), map[schema.StorageID]*model.Table{}
	clock := new(testclock.Clock)
	a.services = &execution.Services{
		View:       a,
		Clock:      clock,
		IDs:        uuid.New(rand.NewPCG(1, 2)),
		Timestamps: a,
		Timeouts:   execution.Timeouts{}.WithDefaults(),
	}
	a.services.Executor = request.New(request.Options{Coordinator: a, Clock: clock})
}

// change executes an INSERT, UPDATE or DELETE.
func (a *answers) change(text string) error {
	stmt, err := cql.Parse(text)
	if err != nil {
		return err
	}
	var name cql.QualifiedName
	switch stmt := stmt.(type) {
	case *cql.Insert:
		name = stmt.Table
	case *cql.Update:
		name = stmt.Table
	case *cql.Delete:
		name = stmt.Table
	}
	writer := write.New(write.Options{Services: a.services})
	m, err := writer.Compile(compilerOf(a.schema, name.Name), stmt)
	if err != nil {
		return err
	}
	_, err = writer.Execute(a.request(), m, new(execution.Params))
	return err
}

func (*answers) request() *request.Request {
	return &request.Request{Context: context.Background(), Consistency: ring.Quorum, SerialConsistency: ring.Serial}
}

// read executes a SELECT, page after page, and returns its rows.
func (a *answers) read(text string, values []wire.Value, pageSize int) (string, error) {
	stmt, err := cql.Parse(text)
	if err != nil {
		return "", err
	}
	reader := New(Options{Services: a.services, PagingKey: func() []byte { return []byte("key") }})
	s := stmt.(*cql.Select)
	plan, err := reader.Compile(compilerOf(a.schema, s.Table.Name), s)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for i, c := range plan.Columns() {
		if i > 0 {
			out.WriteString(" | ")
		}
		out.WriteString(c.Name)
	}
	out.WriteByte('\n')
	params := &execution.Params{Values: values, PageSize: int32(pageSize)}
	for a.reads = 0; ; {
		rows, err := reader.Execute(a.request(), plan, params)
		if err != nil {
			return out.String(), err
		}
		if err := describeRows(&out, plan.Columns(), rows); err != nil {
			return out.String(), err
		}
		if rows.PagingState == nil {
			break
		}
		out.WriteString("--\n") // the end of a page
		params.PagingState = rows.PagingState
	}
	fmt.Fprintf(&out, "(commands: %d)\n", a.reads)
	return out.String(), nil
}

// describeRows appends the rows of a page, a line for each.
func describeRows(out *strings.Builder, columns []term.Spec, rows Rows) error {
	c := wire.NewCursor(rows.Values)
	for range rows.Count {
		for i := range columns {
			if i > 0 {
				out.WriteString(" | ")
			}
			if v := c.Bytes(); v == nil {
				out.WriteString("null")
			} else {
				out.Write(columns[i].Type.AppendLiteral(nil, v))
			}
		}
		out.WriteByte('\n')
	}
	return c.Finish()
}

// values returns the bound values that a command names, all of them int: int=(1,2), or unset.
func values(d *datadriven.TestData) (out []wire.Value, err error) {
	for _, a := range d.CmdArgs {
		if a.Key != "int" {
			continue
		}
		for _, text := range a.Vals {
			if text == "unset" {
				out = append(out, wire.Value{Kind: wire.ValueUnset})
				continue
			}
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return nil, err
			}
			out = append(out, wire.BytesValue(wire.AppendUint32(nil, uint32(n))))
		}
	}
	return out, nil
}

// TestAnswers executes SELECTs over rows: what filters, groups, orders, limits and pages do to them. The last line of
// an answer is the number of commands that its pages took.
func TestAnswers(t *testing.T) {
	a := new(answers)
	datadriven.RunTest(t, "testdata/answer.txt", func(t *testing.T, d *datadriven.TestData) string {
		lines := strings.Split(d.Input, "\n")
		switch d.Cmd {
		case "define":
			a.define(t, lines)
			return ""
		case "write":
			for _, text := range lines {
				if err := a.change(text); err != nil {
					d.Fatalf(t, "%s: %v", text, err)
				}
			}
			return ""
		}
		bound, err := values(d)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		page := 0
		d.MaybeScanArgs(t, "page", &page)
		out, err := a.read(d.Input, bound, page)
		if err != nil {
			out += fmt.Sprintf("%T: %v\n", err, err)
		}
		return out
	})
}

// TestRefusals compiles SELECTs that are refused, and checks their messages.
func TestRefusals(t *testing.T) {
	s := testschema.New(t, "CREATE TABLE t (a int, b int, c int, d text, v int, l list<int>, m map<text, int>, "+
		"f vector<float, 2>, s int STATIC, PRIMARY KEY ((a, b), c, d))",
		"CREATE TABLE counts (k int PRIMARY KEY, n counter)")
	reader := New(Options{Services: &execution.Services{}})
	datadriven.RunTest(t, "testdata/error.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, text := range strings.Split(d.Input, "\n") {
			stmt, err := cql.Parse(text)
			if err != nil {
				d.Fatalf(t, "%s: %v", text, err)
			}
			x := stmt.(*cql.Select)
			if _, err = reader.Compile(compilerOf(s, x.Table.Name), x); err == nil {
				d.Fatalf(t, "%s is not refused", text)
			}
			fmt.Fprintln(&out, err)
		}
		return out.String()
	})
}
