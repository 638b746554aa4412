package system

import (
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// read returns the rows of t that cmd reads, as "partition key, clustering". If given has a limit, rows may be missing
// after as many.
func read(t *testing.T, s *Source, def *schema.Table, given, cmd *row.ReadCommand) []string {
	t.Helper()
	out := []string{}
	more, err := s.Partitions(def, given, func(p *row.Partition) bool {
		for _, r := range p.Rows {
			in := slices.ContainsFunc(cmd.Slices, func(s row.Slice) bool { return s.Contains(r.Clustering) })
			if in && cmd.ReadsPartition(p.Key) {
				out = append(out, string(p.Key.Bytes)+", "+string(r.Clustering))
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if more && (given.Limits.Rows == 0 || len(out) <= int(given.Limits.Rows)) {
		t.Fatalf("rows of %s are omitted after %d, although the limit is %d", def.Name, len(out), given.Limits.Rows)
	}
	if !more && given.Limits.Rows > 0 {
		out = append(out, "end")
	}
	return out
}

// randomCommand restricts the partitions and the rows of a table to some of those that it has.
func randomCommand(r *rand.Rand, all []*row.Partition) *row.ReadCommand {
	cmd := everything()
	if len(all) == 0 {
		return cmd
	}
	p := all[r.IntN(len(all))]
	switch r.IntN(5) {
	case 0:
	case 1:
		cmd.Range.After = &p.Key
	case 2:
		cmd.Range.Tokens = ring.Range{Start: ring.Token(r.Uint64()), End: ring.Token(r.Int64())}
	default:
		cmd.Key, cmd.Range = p.Key, row.KeyRange{}
	}
	bound := func() []byte {
		c := p.Rows[r.IntN(len(p.Rows))].Clustering
		return c[:r.IntN(len(c)+1)]
	}
	switch r.IntN(5) {
	case 0:
	case 1:
		cmd.Slices = []row.Slice{row.ExactRow(p.Rows[r.IntN(len(p.Rows))].Clustering)}
	case 2:
		cmd.Slices = []row.Slice{{Start: bound(), End: row.After(bound())}}
	default:
		cmd.Slices = []row.Slice{row.SliceOf(bound())}
	}
	return cmd
}

// tables returns the changes that create tables in a keyspace.
func tables(keyspace string, names ...string) []schema.Change {
	out := []schema.Change{&schema.CreateKeyspace{Keyspace: keyspace,
		Replication: ring.Replication{Class: ring.Simple, Factor: 2}}}
	for i, name := range names {
		out = append(out, &schema.CreateTable{Keyspace: keyspace, Table: name, ID: schema.UUID{byte(i + 1)},
			Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "a", Type: types.Native(types.Int), Kind: schema.PartitionKey}}})
	}
	return out
}

// A source that knows the command omits only rows that the command does not read.
func TestCommandsReadTheSameRowsFromARestrictedSource(t *testing.T) {
	changes := tables("k", "t", "t2", "tt")
	base := changes[1].(*schema.CreateTable)
	for i, name := range []string{"s", "t1", "u"} { // before, between and after the tables
		changes = append(changes, &schema.CreateView{Keyspace: "k", View: name, ID: schema.UUID{9, byte(i)},
			Base: base.Table, BaseID: base.ID, All: true,
			Partition: []schema.ColumnID{0}, Options: schema.DefaultOptions(),
			Where: []schema.ViewCondition{{Columns: []schema.ColumnID{0}, Operator: schema.ViewNotNull,
				Text: "IS NOT NULL"}}})
	}
	s, r := source(t, changes...), rand.New(rand.NewPCG(1, 2))
	for _, k := range s.o.View.Schema().KeyspaceNames() {
		for _, name := range s.o.View.Schema().Keyspace(k).TableNames() {
			def := s.o.View.Schema().Table(k, name)
			if !s.Serves(def) {
				continue
			}
			all := partitions(t, s, k, name)
			for range 50 {
				cmd := randomCommand(r, all)
				want := read(t, s, def, everything(), cmd)
				if got := read(t, s, def, cmd, cmd); !slices.Equal(got, want) {
					t.Fatalf("%s.%s: %+v: %d rows, want %d", k, name, cmd, len(got), len(want))
				}
				limited := cmd.Clone()
				limited.Limits.Rows = 1 + r.Uint32N(5)
				limited.Reversed = r.IntN(4) == 0
				got := read(t, s, def, limited, cmd)
				if n := len(got); n > 0 && got[n-1] == "end" {
					if got = got[:n-1]; !slices.Equal(got, want) {
						t.Fatalf("%s.%s: %+v: %d rows are all, want %d", k, name, limited, len(got), len(want))
					}
				} else if limited.Reversed || n > len(want) || !slices.Equal(got, want[:n]) {
					t.Fatalf("%s.%s: %+v: the first %d rows of %d differ", k, name, limited, n, len(want))
				}
			}
		}
	}
}

// An estimate reads samples of a table's data, so a query about one table must not make one of every table.
func TestEstimatesReadOnlyTheTablesOfTheCommand(t *testing.T) {
	s := source(t, tables("k", "t", "t2", "tt")...)
	var sampled []string
	estimate := s.o.Estimate
	s.o.Estimate = func(t *schema.Table) Estimate {
		sampled = append(sampled, t.Keyspace+"."+t.Name)
		return estimate(t)
	}
	name := types.Native(types.Text).AppendOrdered(nil, []byte("t2"), false)
	k := row.NewPartitionKey([]byte("k"))
	for _, c := range []struct {
		cmd  row.ReadCommand
		want []string
	}{
		{row.ReadCommand{Key: k, Slices: []row.Slice{row.AllRows()}}, []string{"k.t", "k.t2", "k.tt"}},
		{row.ReadCommand{Key: k, Slices: []row.Slice{row.SliceOf(name)}}, []string{"k.t2"}},
		{row.ReadCommand{Key: k, Slices: []row.Slice{row.SliceOf(append(name,
			types.Native(types.Text).AppendOrdered(nil, []byte("5"), false)...))}}, []string{"k.t2"}},
		{row.ReadCommand{Key: row.NewPartitionKey([]byte("none")), Slices: []row.Slice{row.AllRows()}}, nil},
	} {
		for _, table := range []string{"size_estimates", "table_estimates"} {
			sampled = nil
			read(t, s, s.o.View.Schema().Table("system", table), &c.cmd, &c.cmd)
			if !slices.Equal(sampled, c.want) {
				t.Errorf("%s: %+v sampled %v, want %v", table, c.cmd, sampled, c.want)
			}
		}
	}
}
