package sim

import (
	"fmt"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// all is the level at which everything is asked when the cluster is healed.
func (c *Cluster) all() ring.Consistency { return ring.All }

// converge reads every table whole from all replicas, which repairs what hints could not, and then
// compares the replicas.
func (c *Cluster) converge() {
	c.agree()
	for _, k := range workloadKinds() {
		for _, t := range k.tables {
			if table := c.table(t.Table); table != nil {
				c.readAll(table, func(*row.PageReader, *row.Row, bool) {})
				c.compare(table)
			}
		}
	}
}

// agree notes nodes that have another schema or another ring than the rest.
func (c *Cluster) agree() {
	newest := c.metadata()
	same := func() bool {
		for _, n := range c.present() {
			if n.life == nil {
				return false
			}
			if m := n.life.cluster.Metadata(); m.Schema.Version() != newest.Schema.Version() || m.Topology.Epoch() != newest.Topology.Epoch() {
				return false
			}
		}
		return true
	}
	c.kernel.RunUntil(c.kernel.Now()+c.paced(10*time.Second), same)
	if !same() {
		c.fail("ten seconds after all was healed, not all nodes have one schema and one ring")
	}
}

// readAll reads a table at the level of all, page after page, and calls visit as pager.took does. It says whether
// it came to the end.
func (c *Cluster) readAll(table *schema.Table, visit func(r *row.PageReader, x *row.Row, continued bool)) bool {
	nodes := c.present()
	p := &pager{table: table.StorageID}
	for pages := 0; !p.done; pages++ {
		ok := c.must(nodes[pages%len(nodes)], "reading table "+table.Name, func(l *life, done func(error)) {
			l.coord.Read(&coordinator.ReadRequest{
				Command: p.command(clock{l}.Now().Unix()), Consistency: c.all(), Timeout: 5 * operationTimeout,
			}, func(page []byte, err error) {
				if err == nil {
					err = p.took(page, visit)
				}
				done(err)
			})
		})
		if !ok {
			return false
		}
	}
	return true
}

// compare notes a partition whose replicas do not have the same bytes.
func (c *Cluster) compare(table *schema.Table) {
	partitions := map[string]map[ring.NodeID][]byte{}
	now := int64(0)
	for _, n := range c.present() {
		if n.life == nil {
			return // it did not start, which was noted
		}
		now = max(now, clock{n.life}.Now().Unix())
	}
	for _, n := range c.present() {
		if err := c.dump(n, table, now, partitions); err != nil {
			c.fail("node %d cannot read table %s: %v", n.id, table.Name, err)
			return
		}
	}
	for key, byNode := range partitions {
		var pages []string
		for _, n := range c.holders(row.NewPartitionKey([]byte(key)).Token) {
			pages = append(pages, string(byNode[n.id]))
		}
		slices.Sort(pages)
		if len(slices.Compact(pages)) > 1 {
			c.fail("table %s, partition %q: the replicas have not converged: %s", table.Name, key, differ(pages))
		}
	}
}

// dump reads a table in one node's storage: the bytes of each partition.
func (c *Cluster) dump(n *Node, table *schema.Table, now int64, into map[string]map[ring.NodeID][]byte) error {
	for p := (&pager{table: table.StorageID}); !p.done; {
		page, err := n.life.engine.Read(nil, p.command(now))
		if err != nil {
			return err
		}
		err = p.took(page, func(r *row.PageReader, x *row.Row, continued bool) {
			key := string(r.Key.Bytes)
			if into[key] == nil {
				into[key] = map[ring.NodeID][]byte{}
			}
			b := into[key][n.id]
			if x == nil {
				b = fmt.Append(row.AppendRow(b, &r.Header), r.RangeTombstones)
			} else {
				b = row.AppendRow(append(b, x.Clustering...), x)
			}
			into[key][n.id] = b
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// differ shows where pages begin to differ.
func differ(pages []string) string {
	a, b := pages[0], pages[len(pages)-1]
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	from := max(n-20, 0)
	return fmt.Sprintf("at byte %d, %q or %q", n, a[from:min(n+40, len(a))], b[from:min(n+40, len(b))])
}
