package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cqld/coordinator"
	"cqld/repair"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/pages"
)

// verifier checks a healed cluster: its replicas, its snapshots and the histories of its clients. Its checks use the
// clients' path (coordinator reads) and the storage of each node directly, because a read at a level shows one merged
// answer and hides which replica differs.
type verifier struct {
	c *Cluster
	// snapshots grows during the faults; each is compared with its node at the end (checkSnapshots).
	snapshots []*snapshot
	excused   excuses
}

// found records violations of a history, except empty ones.
func (v *verifier) found(violations ...string) {
	for _, violation := range violations {
		if violation != "" {
			v.c.fail("%s", violation)
		}
	}
}

// converge reads every table completely from all replicas, which repairs differences that hints left, and then compares
// the replicas. After a read at ALL of every row, no replica may lack anything. It runs after readBack of the
// workloads, because its reads repair.
func (v *verifier) converge() {
	v.agree()
	for _, k := range v.c.options.kinds() {
		for _, t := range k.tables {
			// A workload may have dropped its table.
			if table := v.c.table(t.Table); table != nil {
				v.readAll(table, func(*row.PageReader, *row.Row, bool) {})
				v.compare(table)
			}
		}
	}
}

// convergeWithoutReads compares the replicas of all tables before any client reads them, if the options require it:
// hints alone, or a repair, must have made them equal. A run has one mechanism only: each would hide a failure of the
// others.
func (v *verifier) convergeWithoutReads() {
	c := v.c
	switch {
	// Hints alone are not required to suffice if they are disabled, if a disk with hints was lost, or if a node has
	// left the ring with hints.
	case c.options.ConvergeBy == ByHints && !c.options.NoHints && !c.losing && !v.excused.all:
		v.agree()
		v.awaitEqual("after all hints were delivered", &v.excused)
	case c.options.ConvergeBy == ByRepair:
		v.agree()
		// Before the complete repair, which would leave no differences to this one.
		v.repairSome()
		for _, table := range c.tables() {
			v.repairs(table)
		}
		v.awaitEqual("after a repair", nil)
	}
}

// tables returns the present tables of the workloads, and the dropped ones that can be restored. The order is the order
// of names, so that it is the same in each run of a seed.
func (c *Cluster) tables() (all []*schema.Table) {
	return c.metadata().Schema.Keyspace(keyspace).StoredTables()
}

// repairs repairs a table of a healed cluster; a second repair must send no rows. The first repair may send rows. Five
// minutes are simulated time, for a table with hundreds of rows.
func (v *verifier) repairs(table *schema.Table) {
	c := v.c
	// The second repair runs at another node: the result must not depend on the coordinator of the repair.
	for second := range 2 {
		c.mustWithin(5*time.Minute, c.present()[second%len(c.present())], "repairing table "+table.Name,
			func(l *process, done func(error)) {
				l.repairer.Start(repair.Job{Table: table.StorageID, Range: ring.FullRange()}, nil,
					func(r repair.Report, err error) {
						if err == nil && second == 1 && r.Rows > 0 {
							c.fail("a second repair of table %s sends %d rows: %+v", table.Name, r.Rows, r)
						}
						done(err)
					})
			})
	}
}

// awaitEqual waits until the replicas of all tables are equal, except for excused partitions: the replay of batches,
// and outstanding answers, may take a few seconds. It makes up to ten attempts, two seconds apart.
func (v *verifier) awaitEqual(when string, excused *excuses) {
	c := v.c
	var different []string
	for range 10 {
		different = nil
		for _, table := range c.tables() {
			different = append(different, v.differences(table, excused, &repair.Scope{})...)
		}
		if len(different) == 0 {
			c.count("converged " + when)
			return
		}
		// Every attempt compares all tables again: what is applied meanwhile may make another table differ.
		c.kernel.RunUntil(c.kernel.Now()+c.paced(2*time.Second), func() bool { return false })
	}
	for _, d := range different {
		c.fail("%s: %s", when, d)
	}
}

// agree records nodes with a different schema or ring. It waits up to ten simulated seconds.
func (v *verifier) agree() {
	c := v.c
	newest := c.metadata()
	same := func() bool {
		for _, n := range c.present() {
			if n.process == nil {
				return false
			}
			if m := n.process.cluster.Metadata(); m.Schema.Version() != newest.Schema.Version() ||
				m.Topology.Epoch() != newest.Topology.Epoch() {
				return false
			}
		}
		return true
	}
	// newest stays the reference: no client proposes changes of the schema or the ring now.
	c.kernel.RunUntil(c.kernel.Now()+c.paced(10*time.Second), same)
	if !same() {
		c.fail("ten seconds after all faults were healed, the nodes do not agree on schema and ring")
	}
}

// readAll reads a table at ALL, page by page, and calls visit as pages.Reader.Took does. It reports whether it reached
// the end. visit gets each page's header (x is nil), and then each row.
func (v *verifier) readAll(table *schema.Table, visit func(r *row.PageReader, x *row.Row, continued bool)) bool {
	nodes := v.c.present()
	p := &pages.Reader{Table: table.StorageID}
	for page := 0; !p.Done(); page++ {
		// Each page is read by another coordinator. Replicas keep no state between pages.
		ok := v.c.must(nodes[page%len(nodes)], "reading table "+table.Name, func(l *process, done func(error)) {
			l.coord.Read(&coordinator.ReadRequest{
				Command: p.Command(clock{l}.Now().Unix()), Consistency: ring.All, Timeout: 5 * operationTimeout,
			}, func(page []byte, err error) {
				if err == nil {
					err = p.Took(page, visit)
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

// compare records the partitions whose replicas differ.
func (v *verifier) compare(table *schema.Table) {
	if v.c.options.has("graves") {
		// The replicas have received notices of repairs one after the other. What they purge is equal when all notices
		// have settled.
		v.c.kernel.RunUntil(v.c.kernel.Now()+2*settlingTime, func() bool { return false })
	}
	for _, d := range v.differences(table, nil, &repair.Scope{}) {
		v.c.fail("%s", d)
	}
}

// differences returns the partitions whose replicas in the scope differ, except for excused ones. The bytes include
// tombstones and timestamps: replicas that answer equally but would purge differently are not equal.
func (v *verifier) differences(table *schema.Table, excused *excuses, scope *repair.Scope) (out []string) {
	c := v.c
	partitions := map[string]map[ring.NodeID][]byte{}
	now := int64(0)
	for _, n := range c.present() {
		if n.process == nil {
			return nil // it did not start, which was recorded
		}
		// All replicas are read as of the same second, or expiring cells would make equal replicas differ.
		now = max(now, clock{n.process}.Now().Unix())
	}
	for _, n := range c.present() {
		if err := pages.Dump(n.process.engine, n.id, table, now, partitions); err != nil {
			c.fail("node %d cannot read table %s: %v", n.id, table.Name, err)
			return nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(partitions)) {
		byNode, token := partitions[key], row.NewPartitionKey([]byte(key)).Token
		// A nil excuses excuses nothing.
		if excused.has(tokenOf{table.StorageID, token}) {
			continue
		}
		var replicas, sizes []string
		for _, n := range c.holders(token) {
			if !n.in(scope) {
				continue
			}
			// A replica without the partition has no bytes, and differs from one that has it.
			replicas = append(replicas, string(byNode[n.id]))
			sizes = append(sizes, fmt.Sprintf("node %d has %d bytes", n.id, len(byNode[n.id])))
		}
		slices.Sort(replicas)
		if replicas = slices.Compact(replicas); len(replicas) > 1 {
			out = append(out, fmt.Sprintf("table %s, partition %q, token %d: the replicas have not converged: %s: %s",
				table.Name, key, token,
				strings.Join(sizes, ", "), pages.Difference(replicas)))
		}
	}
	return out
}
