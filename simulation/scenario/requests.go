package scenario

import (
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
)

// mutation returns the mutation of a command: "k1 a=x b=y ts=10"; of delete "k1 a ts=10", "k1 from=a to=c" or "k1"
// alone; of static "k1 x". Rows are named by one letter, which is the clustering as text. LocalTime of deletions is the
// time of the scenario, so a purge can be reached by advancing the clock.
func (s *script) mutation(d *datadriven.TestData, kind string) *row.Mutation {
	m := &row.Mutation{}
	bare := words(d)
	m.Reset(s.c.Table.StorageID, row.NewPartitionKey([]byte(bare[0])))
	ts := s.stamp(d)
	deletion := row.Deletion{Timestamp: ts, LocalTime: s.c.Clock.Now().Unix()}
	r := row.NewRow()
	switch {
	case kind == "static":
		r.Cells = append(r.Cells, row.Cell{Column: s.c.Table.Column("s").ID, Timestamp: ts, Value: []byte(bare[1])})
		m.AddHeader(r)
	case kind == "delete" && d.HasArg("from"):
		m.AddRangeTombstone(row.RangeTombstone{
			Start: []byte(text(d, "from", "")), End: row.After([]byte(text(d, "to", "z"))), Deletion: deletion,
		})
	// No row is named: the whole partition is deleted.
	case kind == "delete" && len(bare) == 1:
		r.Deletion = deletion
		m.AddHeader(r)
	case kind == "delete":
		for _, c := range bare[1:] {
			r.Reset()
			r.Clustering, r.Deletion = []byte(c), deletion
			m.AddRow(r)
		}
	default:
		for _, a := range d.CmdArgs {
			// Rows have names of one letter; longer names are arguments of the request.
			if len(a.Vals) != 1 || len(a.Key) != 1 {
				continue
			}
			AddRow(m, s.c.Table, a.Key, a.Vals[0], ts)
		}
	}
	return m
}

// stamp returns the timestamp of a command, which by default is the time. Without ts=, later commands have greater
// timestamps only if the clock was advanced.
func (s *script) stamp(d *datadriven.TestData) int64 {
	return int64(number(d, "ts", int(s.c.Clock.Monotonic()/time.Microsecond)+1))
}

// begin assigns a number to a request and returns the function that logs its result. The number is the request's
// ordinal in the cluster, for example "write 3: ok".
func (s *script) begin(what string) (done func(result string)) {
	c := s.c
	// Numbers distinguish the results of requests that are in progress together.
	c.ops++
	n := c.ops
	called := false
	return func(result string) {
		// A protocol must answer once. The line makes the scenario fail, as no expected output contains it.
		if called {
			c.printf("%s %d: ANSWERED TWICE", what, n)
		}
		called = true
		c.printf("%s %d: %s", what, n, result)
	}
}

// submit writes mutations. The result is printed when it comes, perhaps in the output of a later command.
func (s *script) submit(d *datadriven.TestData, mutations []*row.Mutation, kind coordinator.WriteType) {
	done := s.begin("write")
	at := s.c.Node(ring.NodeID(number(d, "at", 1)))
	at.Write(&coordinator.WriteRequest{
		Mutations: mutations, Consistency: level(d), Type: kind, Timeout: duration(d, "timeout", "2s"),
		Ordered: s.c.Table.Options.WriteOrdering != "", Stamp: s.stamp(d),
	}, func(err error) { done(FormatError(err)) })
}

// write writes one mutation.
func (s *script) write(d *datadriven.TestData) {
	s.submit(d, []*row.Mutation{s.mutation(d, d.Cmd)}, coordinator.WriteSimple)
}

// batch writes the lines of its input, "k1 a x", as an unlogged batch.
func (s *script) batch(d *datadriven.TestData) {
	s.submit(d, s.lines(d), coordinator.WriteUnloggedBatch)
}

// lines returns the mutations of the lines "k1 a x".
func (s *script) lines(d *datadriven.TestData) (all []*row.Mutation) {
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		m := &row.Mutation{}
		m.Reset(s.c.Table.StorageID, row.NewPartitionKey([]byte(f[0])))
		AddRow(m, s.c.Table, f[1], f[2], int64(number(d, "ts", 1)))
		all = append(all, m)
	}
	return all
}

// apply changes the storage of the nodes that node= names. It is how replicas are made to differ without a fault.
func (s *script) apply(d *datadriven.TestData) {
	// Directly in storage, without a coordinator: the other replicas do not have the change, and no hint is written.
	for _, id := range list(d, "node") {
		n, err := strconv.Atoi(id)
		if err != nil {
			s.t.Fatal(err)
		}
		kind := "write"
		// mutation must not see this word among the names of rows. It is restored below, for the next node.
		for _, k := range []string{"delete", "static"} {
			if d.HasArg(k) {
				kind = k
				d.CmdArgs = without(d.CmdArgs, k)
			}
		}
		m := s.mutation(d, kind)
		check := func(err error) {
			if err != nil {
				s.t.Fatal(err)
			}
		}
		check(s.c.Node(ring.NodeID(n)).Engine.Apply([]*row.Mutation{m}, true, check))
		if kind != "write" {
			d.CmdArgs = append(d.CmdArgs, datadriven.CmdArg{Key: kind})
		}
	}
}

// without returns args except those with a key.
func without(args []datadriven.CmdArg, key string) (out []datadriven.CmdArg) {
	for _, a := range args {
		if a.Key != key {
			out = append(out, a)
		}
	}
	return out
}

// command returns the read command of a line. from= and to= are inclusive bounds of clusterings.
func (s *script) command(d *datadriven.TestData) *row.ReadCommand {
	// A read without bounds counts static rows, as SELECT without a condition on clustering columns does.
	cmd := &row.ReadCommand{
		Table: s.c.Table.StorageID, Slices: []row.Slice{row.AllRows()}, Reversed: d.HasArg("reversed"),
		StaticCounts: true,
		Limits:       row.Limits{Rows: uint32(number(d, "limit", 0)), PerPartition: uint32(number(d, "per", 0))},
		Now:          s.c.Clock.Now().Unix(),
	}
	// A static row counts as a row only if no rows are selected.
	if d.HasArg("from") {
		cmd.StaticCounts = false
		cmd.Slices = []row.Slice{{Start: []byte(text(d, "from", "")), End: row.After([]byte(text(d, "to", "z")))}}
	}
	// As WHERE v = … ALLOW FILTERING, in a table with one partition key column.
	if d.HasArg("v") {
		v := s.c.Table.Column("v")
		cmd.StaticCounts, cmd.Filter = false, &row.Filter{PartitionKey: 1}
		cmd.Filter.Add(row.Condition{Kind: v.Kind, Column: v.ID, Operator: row.FilterEqual, Type: v.Type,
			Values: [][]byte{[]byte(text(d, "v", ""))}})
	}
	if d.Cmd == "scan" {
		cmd.Range.Tokens = ring.FullRange()
		if after := text(d, "after", ""); after != "" {
			k := row.NewPartitionKey([]byte(after))
			cmd.Range.After = &k
		}
	} else {
		cmd.Key = row.NewPartitionKey([]byte(words(d)[0]))
	}
	return cmd
}

// read reads a partition or, with scan, all of them. At SERIAL and LOCAL_SERIAL, the read of a partition uses Paxos.
func (s *script) read(d *datadriven.TestData) {
	done := s.begin(d.Cmd)
	at := s.c.Node(ring.NodeID(number(d, "at", 1)))
	at.read(&coordinator.ReadRequest{
		Command: s.command(d), Consistency: level(d), Timeout: duration(d, "timeout", "5s"),
	}, func(page []byte, err error) {
		if err != nil {
			done(FormatError(err))
			return
		}
		done(FormatPage(page))
	})
}

// truncate truncates table t.
func (s *script) truncate(d *datadriven.TestData) {
	done := s.begin("truncate")
	s.c.Node(ring.NodeID(number(d, "at", 1))).Truncate(s.c.Table, duration(d, "timeout", "60s"),
		func(err error) { done(FormatError(err)) })
}
