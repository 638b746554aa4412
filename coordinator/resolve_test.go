package coordinator_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/simulation/scenario"
)

// TestReadAtAllIsTheMerge writes random changes to random replicas, reads with random limits at ALL, and compares the
// result with the merge of all replicas' data. With small pages and limits, most reads are short reads.
func TestReadAtAllIsTheMerge(t *testing.T) {
	seeds := uint64(90)
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			o := scenario.Options{Datacenters: []string{"dc1", "dc1", "dc1"}, Owners: 3,
				Replication: ring.Replication{Class: ring.Simple, Factor: 2 + int(seed%2)}}
			if seed%3 == 0 {
				o.PageBytes = 80
			}
			if seed%5 == 0 {
				o.Limits.ResultBytes = 200
			}
			c := newCluster(t, o)
			for i := range 60 {
				c.randomChange(r, int64(i+1))
			}
			for range 25 {
				cmd := c.randomCommand(r)
				if o.PageBytes > 0 || o.Limits.ResultBytes > 0 {
					// If a page ends because of its size, it is unknown whether rows follow the static one.
					cmd.StaticCounts = false
				}
				c.compareRead(r, cmd)
			}
		})
	}
}

func (c *cluster) holders(k row.PartitionKey) []ring.NodeID {
	return c.Nodes[0].Ring.Placement(c.Table.Replication).Replicas(k.Token).Natural
}

func randomKey(r *rand.Rand) row.PartitionKey {
	return row.NewPartitionKey([]byte{'k', byte('0' + r.IntN(4))})
}

// randomChange applies one change to some of its replicas.
func (c *cluster) randomChange(r *rand.Rand, ts int64) {
	key := randomKey(r)
	m := &row.Mutation{}
	m.Reset(c.Table.StorageID, key)
	clustering := string(byte('a' + r.IntN(12)))
	deletion := row.Deletion{Timestamp: ts, LocalTime: c.Clock.Now().Unix()}
	x := row.NewRow()
	switch r.IntN(12) {
	case 0:
		end := row.After([]byte{clustering[0] + byte(r.IntN(4))})
		m.AddRangeTombstone(row.RangeTombstone{Start: []byte(clustering), End: end, Deletion: deletion})
	case 1, 2, 3:
		x.Clustering, x.Deletion = []byte(clustering), deletion
		m.AddRow(x)
	case 4:
		x.Cells = append(x.Cells, row.Cell{Column: c.Table.Column("s").ID, Timestamp: ts, Value: []byte("st")})
		m.AddHeader(x)
	case 5:
		if r.IntN(4) == 0 {
			x.Deletion = deletion
			m.AddHeader(x)
		}
	default:
		scenario.AddRow(m, c.Table, clustering, fmt.Sprint("v", ts), ts)
	}
	for _, id := range c.holders(key) {
		if r.IntN(3) > 0 {
			check := func(err error) {
				if err != nil {
					c.T.Fatal(err)
				}
			}
			check(c.Node(id).Engine.Apply([]*row.Mutation{m}, true, check))
		}
	}
}

func (c *cluster) randomCommand(r *rand.Rand) *row.ReadCommand {
	cmd := &row.ReadCommand{
		Table: c.Table.StorageID, Slices: []row.Slice{row.AllRows()}, StaticCounts: true,
		Reversed: r.IntN(3) == 0, Now: c.Clock.Now().Unix(),
	}
	if r.IntN(3) > 0 {
		cmd.Limits.Rows = uint32(1 + r.IntN(6))
	}
	if r.IntN(3) == 0 {
		cmd.Limits.PerPartition = uint32(1 + r.IntN(3))
	}
	cmd.Inserted = r.IntN(6) == 0
	if r.IntN(3) == 0 {
		cmd.StaticCounts = false
		cmd.Slices = []row.Slice{{Start: []byte("b"), End: []byte("e")}, {Start: []byte("f")}}
	}
	if r.IntN(2) == 0 {
		cmd.Key = randomKey(r)
	} else {
		cmd.Range.Tokens = ring.FullRange()
		if r.IntN(3) == 0 {
			k := randomKey(r)
			cmd.Range.After = &k
		}
	}
	return cmd
}

// compareRead reads, and compares with the expected rows; then all replicas must return the same.
func (c *cluster) compareRead(r *rand.Rand, cmd *row.ReadCommand) {
	want := c.truth(cmd)
	got, more := c.mustRead(cmd, ring.All, ring.NodeID(1+r.IntN(3)))
	if more && len(got) < len(want) {
		want = want[:len(got)] // the page ended because of its size
	}
	if !slices.Equal(got, want) {
		c.T.Fatalf("%+v:\n got %v (more %t)\nwant %v", cmd, got, more, want)
	}
	if !cmd.SinglePartition() {
		return
	}
	for _, id := range c.holders(cmd.Key) {
		one, more := c.mustRead(cmd, ring.NodeLocal, id)
		n := len(got)
		if more {
			n = min(n, len(one)) // its page may have ended because of its size
		}
		if len(one) < n || !slices.Equal(one[:n], got[:n]) {
			c.T.Fatalf("%+v: node %d was not repaired: %v, want %v", cmd, id, one, got)
		}
	}
}

func (c *cluster) mustRead(cmd *row.ReadCommand, level ring.Consistency, at ring.NodeID) (rows []string, more bool) {
	answered := 0
	c.Node(at).Coordinator.Read(&coordinator.ReadRequest{Command: cmd, Consistency: level, Timeout: 1e9},
		func(page []byte, err error) {
			answered++
			if err != nil {
				c.T.Fatal(err)
			}
			rows, more = liveRows(c.T, cmd, page)
		})
	c.Deliver(1_000_000, nil)
	if answered != 1 {
		c.T.Fatalf("answered %d times", answered)
	}
	return rows, more
}

// liveRows returns the rows of a page that a client would see; a live static row without rows counts as one.
func liveRows(t testing.TB, cmd *row.ReadCommand, page []byte) (rows []string, more bool) {
	var p row.PageReader
	p.Reset(page)
	for p.NextPartition() {
		n := 0
		var x row.Row
		for p.NextRow(&x) {
			if x.Live(cmd.Now) {
				n++
				rows = append(rows, fmt.Sprintf("%s/%s=%s", p.Key.Bytes, x.Clustering, firstValue(&x)))
			}
		}
		if n == 0 && cmd.StaticCounts && p.Header.Live(cmd.Now) {
			rows = append(rows, string(p.Key.Bytes)+"/static")
		}
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	return rows, p.More()
}

// firstValue returns the value of a row's first cell, or nil if the command has omitted the cells.
func firstValue(x *row.Row) []byte {
	if len(x.Cells) == 0 {
		return nil
	}
	return x.Cells[0].Value
}

// truth computes the answer by brute force: it merges all replicas' partitions, filters and cuts them.
func (c *cluster) truth(cmd *row.ReadCommand) (rows []string) {
	var keys []row.PartitionKey
	for i := range 4 {
		k := row.NewPartitionKey([]byte{'k', byte('0' + i)})
		switch {
		case cmd.SinglePartition() && !bytes.Equal(cmd.Key.Bytes, k.Bytes):
		case cmd.Range.After != nil && k.Compare(*cmd.Range.After) <= 0:
		default:
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, row.PartitionKey.Compare)
	for _, k := range keys {
		n := 0
		p := c.wholePartition(cmd, k)
		for i := range p.Rows {
			x := &p.Rows[i]
			if cmd.Inserted {
				x.Cells = nil
			}
			in := slices.ContainsFunc(cmd.Slices, func(s row.Slice) bool { return s.Contains(x.Clustering) })
			if !in || !x.Live(cmd.Now) || cmd.Limits.PerPartition > 0 && n >= int(cmd.Limits.PerPartition) {
				continue
			}
			n++
			rows = append(rows, fmt.Sprintf("%s/%s=%s", k.Bytes, x.Clustering, firstValue(x)))
		}
		if n == 0 && cmd.StaticCounts && p.Header.Live(cmd.Now) {
			rows = append(rows, string(k.Bytes)+"/static")
		}
	}
	if limit := int(cmd.Limits.Rows); limit > 0 && len(rows) > limit {
		rows = rows[:limit]
	}
	return rows
}

func (c *cluster) wholePartition(cmd *row.ReadCommand, k row.PartitionKey) *row.Partition {
	versions := []*row.Partition{{Key: k, Header: *row.NewRow()}}
	whole := &row.ReadCommand{Table: cmd.Table, Key: k, Slices: []row.Slice{row.AllRows()}, Now: cmd.Now,
		Reversed: cmd.Reversed}
	for _, id := range c.holders(k) {
		for {
			page, err := c.Node(id).Engine.Read(nil, whole)
			if err != nil {
				c.T.Fatal(err)
			}
			var p row.PageReader
			p.Reset(page)
			v := &row.Partition{Key: k, Header: *row.NewRow()}
			for p.NextPartition() {
				v.Header, v.RangeTombstones = p.Header.Clone(), slices.Clone(p.RangeTombstones)
				var x row.Row
				for p.NextRow(&x) {
					v.Rows = append(v.Rows, x.Clone())
				}
			}
			versions = append(versions, v)
			if !p.More() || len(v.Rows) == 0 {
				break
			}
			last := v.Rows[len(v.Rows)-1].Clustering
			next := *whole
			if next.Slices = []row.Slice{{Start: row.After(last)}}; cmd.Reversed {
				next.Slices = []row.Slice{{End: last}}
			}
			whole = &next
		}
		whole = &row.ReadCommand{Table: cmd.Table, Key: k, Slices: []row.Slice{row.AllRows()}, Now: cmd.Now,
			Reversed: cmd.Reversed}
	}
	return row.MergePartitions(versions, cmd.Reversed)
}
