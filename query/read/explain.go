package read

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/execution"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/query/restriction"
	"cqld/query/term"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/types"
)

// path returns the kind of the cheapest usable path. empty means that no row can match.
func (p *Plan) path(virtual, empty bool) restriction.AccessKind {
	if empty {
		return restriction.AccessNone
	}
	paths := restriction.AccessPaths(p.table, p.where, virtual, &restriction.Choice{Index: p.where.Index()})
	// The paths are sorted by cost, and the last one is always usable.
	return paths[slices.IndexFunc(paths, usable)].Kind
}

func usable(p restriction.AccessPath) bool { return p.Usable }

// Explain is the plan of EXPLAIN. It is shared by executions, like Plan.
type Explain struct {
	sel     *Plan
	analyze bool
}

// CompileExplain compiles an EXPLAIN of a SELECT from the compiler's table. Errors of the SELECT are errors of the
// EXPLAIN.
func (reader *Reader) CompileExplain(c *term.Compiler, stmt *cql.Explain) (*Explain, error) {
	if stmt.Select.Fragments {
		return nil, invalid.Errorf("EXPLAIN is not supported for SELECT FROM MUTATION_FRAGMENTS() statements")
	}
	sel, err := reader.Compile(c, stmt.Select)
	if err != nil {
		return nil, err
	}
	return &Explain{sel: sel, analyze: stmt.Analyze}, nil
}

// Columns returns the columns of the result. Each row is a property and its value as text, because the set of
// properties depends on the plan.
func (*Explain) Columns() []term.Spec {
	text := types.Native(types.Text)
	return []term.Spec{
		{Keyspace: "system", Table: "explain", Name: "property", Type: text},
		{Keyspace: "system", Table: "explain", Name: "value", Type: text},
	}
}

// explanation builds the result of one EXPLAIN. It is used by one goroutine, for one request.
type explanation struct {
	reader *Reader
	plan   *Plan
	// masks are applied to the rows that ANALYZE reads, because errors of functions contain their arguments.
	//
	// Encoded rows of two values each, and their number.
	masks *mask.Table
	rows  []byte
	n     int32
}

// add appends a row to the result. A property may occur several times, for example one for each rejected path. The
// order of the calls is the order of the rows.
func (x *explanation) add(property, format string, args ...any) {
	x.rows = wire.AppendBytes(x.rows, []byte(property))
	x.rows = wire.AppendBytes(x.rows, fmt.Appendf(nil, format, args...))
	x.n++
}

// Explain executes EXPLAIN. ANALYZE executes the SELECT with the parameters of the request, so it reads one page of a
// long result, and discards the rows. Explain checks the consistency level and the masks like the SELECT itself, so
// that it reveals nothing that the SELECT would not. Permissions were checked by the caller.
func (reader *Reader) Explain(r *request.Request, plan *Explain, params *execution.Params) (Rows, error) {
	if err := execution.CheckReadLevel(r.Consistency); err != nil {
		return Rows{}, err
	}
	masks, err := reader.o.Masks(r, plan.sel.masking)
	if err != nil {
		return Rows{}, err
	}
	x := &explanation{reader: reader, plan: plan.sel, masks: masks}
	if err := x.describe(r, params); err != nil {
		return Rows{}, err
	}
	if plan.analyze {
		if err := x.analyze(r, params); err != nil {
			return Rows{}, err
		}
	}
	return Rows{Count: x.n, Values: x.rows}, nil
}

// describe adds the actions of the plan for the values of the request. It reads no rows, but counts index entries on
// this node, because the choice of an index depends on them.
func (x *explanation) describe(r *request.Request, params *execution.Params) error {
	reader := x.reader
	run := reader.readings.Get().(*reading)
	defer run.put()
	// These steps equal the steps of execute before its reads.
	run.begin(r, reader, x.plan, params.Values, reader.o.Moment(params))
	empty, err := run.visibleWhere(r)
	if err != nil {
		return err
	}
	run.index.Index = cmp.Or(run.index.Index, x.plan.where.Index())
	paths := restriction.AccessPaths(x.plan.table, x.plan.where, reader.o.IsVirtual(x.plan.table), &run.index)
	// IndexFunc cannot return -1: the last path is usable for every statement.
	chosen := slices.IndexFunc(paths, usable)
	path := paths[chosen]
	if empty {
		path = restriction.AccessPath{Kind: restriction.AccessNone, Reason: "no row can match"}
	}
	x.add("table", "%s.%s", x.plan.table.Keyspace, x.plan.table.Name)
	x.add("path", "%s: %s", path.Kind, path.Reason)
	// Show each cheaper path with the reason why it cannot be used.
	for _, other := range paths[:chosen] {
		x.add("rejected path", "%s: %s", other.Kind, other.Reason)
	}
	for _, c := range run.index.Counted {
		least := ""
		if c.More {
			least = " or more"
		}
		x.add("index entries on this node", "%s: %d%s", c.Index.Name, c.Entries, least)
	}
	// Nothing is read, so there are no partitions, filters or replicas to describe.
	if path.Kind == restriction.AccessNone {
		return nil
	}
	x.partitions(run, path.Kind)
	x.add("clustering", "%s", describeSlices(run))
	atReplicas, atCoordinator := run.filterPlaces(r.Consistency)
	if len(atReplicas) > 0 {
		x.add("filter at replicas", "%s", restriction.ColumnNames(atReplicas))
	}
	if len(atCoordinator) > 0 {
		x.add("filter at coordinator", "%s", restriction.ColumnNames(atCoordinator))
	}
	// ORDER BY in clustering order needs no sort and is not shown.
	if x.plan.order != nil {
		x.add("sort", "in memory, by the coordinator")
	}
	if near := x.plan.near; near != nil {
		how := "the coordinator compares all rows that are read"
		if x.plan.searchesVectors() {
			how = "replicas search the index " + near.index.Name
		}
		x.add("order", "by the %s similarity of %s: %s", strings.ToLower(near.function.String()), near.col.Name, how)
	}
	// Virtual tables are generated by this node and have no replicas.
	if path.Kind == restriction.AccessVirtual {
		return nil
	}
	x.replicas(run, r.Consistency)
	return nil
}

// partitions adds the partitions that are read, and an upper bound of their number. Estimates cover the whole table
// or a token range. They are not shown for an index, which reads only partitions with entries.
func (x *explanation) partitions(run *reading, kind restriction.AccessKind) {
	if run.cursor.Keys != nil {
		x.add("partitions", "%d", len(run.cursor.Keys))
		return
	}
	if run.cursor.Tokens != ring.FullRange() {
		x.add("tokens", "%s", run.cursor.Tokens)
	}
	if x.reader.o.Estimate == nil || kind == restriction.AccessVirtual || kind == restriction.AccessIndex {
		return
	}
	if n, mean, ok := x.reader.o.Estimate(x.plan.table); ok {
		// The estimate covers the whole table; scale it to the token range.
		n = int64(math.Round(float64(n) * run.cursor.Tokens.Share()))
		x.add("estimated partitions", "%d", n)
		x.add("estimated bytes", "%d", n*mean)
	}
}

// describeSlices describes the rows of each partition that are read. Start and End of a Slice are encoded clusterings;
// an empty Start and a nil End are unbounded.
func describeSlices(run *reading) string {
	in := run.cursor.Command.Slices
	exact := 0
	for _, s := range in {
		if s.Exact() {
			exact++
		}
	}
	switch {
	case len(in) == 1 && len(in[0].Start) == 0 && in[0].End == nil:
		return "all rows of each partition"
	case exact == len(in):
		return plural(exact, "row", "rows") + " of each partition"
	}
	return plural(len(in), "slice", "slices") + " of each partition"
}

// plural returns n followed by the singular or plural noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// replicas adds the nodes that store the partitions, and how many replicas of each partition must answer. It shows
// all candidates, because the coordinator chooses among them by their latencies at the time of the read.
func (x *explanation) replicas(run *reading, level ring.Consistency) {
	topology := x.reader.o.View.Topology()
	replication := x.plan.table.Replication
	// BlockFor counts replicas in the local datacenter for levels such as LOCAL_QUORUM, so it needs the name of that
	// datacenter.
	datacenter := x.reader.o.Datacenter()
	self := x.reader.o.View.Self()
	var nodes []ring.NodeID
	if replication.Class == ring.Local {
		nodes = []ring.NodeID{self}
	} else {
		nodes = x.nodes(topology.Placement(replication), run.cursor.Keys, run.cursor.Tokens)
	}
	names := make([]string, len(nodes))
	for i, id := range nodes {
		names[i] = topology.NameOf(id)
		if !x.reader.o.View.Alive(id) {
			// This node's failure detector considers it down.
			names[i] += " (down)"
		}
	}
	x.add("replicas", "%s", strings.Join(names, ", "))
	x.add("consistency", "%s: %s", level, plural(level.BlockFor(replication, datacenter), "answer",
		"answers")+" for each partition")
}

// nodes returns the replicas of keys or, if keys is nil, of a range of tokens, ascending, without duplicates. Pending
// replicas receive no reads and are omitted.
func (x *explanation) nodes(placement *ring.Placement, keys []row.PartitionKey, tokens ring.Range) (out []ring.NodeID) {
	add := func(set ring.ReplicaSet) {
		for _, id := range set.Natural {
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	for _, k := range keys {
		add(placement.Replicas(k.Token))
	}
	if keys == nil {
		for _, piece := range placement.Ranges(tokens) {
			add(piece.Replicas)
		}
	}
	slices.Sort(out)
	return out
}

// analyze executes the SELECT and adds its cost. It uses the consistency level and the page size of the request, so
// the cost equals the cost of the client's own SELECT.
func (x *explanation) analyze(r *request.Request, params *execution.Params) error {
	reader := x.reader
	run := reader.readings.Get().(*reading)
	defer run.put()
	run.masks = x.masks
	// Costs are counted only after Measure.
	r.Measure()
	// r.Cost may include earlier statements of the request.
	began, before := reader.o.Clock.Monotonic(), r.Cost
	rows, err := run.execute(r, reader, x.plan, params)
	if err != nil {
		return err
	}
	took := reader.o.Clock.Monotonic() - began
	// No replica takes part in a read of a virtual table, or of nothing.
	if asked := r.Replicas(); len(asked) > 0 {
		topology, names := reader.o.View.Topology(), make([]string, len(asked))
		for i, id := range asked {
			names[i] = topology.NameOf(id)
		}
		x.add("replicas asked", "%s", strings.Join(names, ", "))
	}
	x.add("rows returned", "%d", rows.Count)
	x.add("rows read", "%d", r.Cost.Rows-before.Rows)
	x.add("tombstones read", "%d", r.Cost.Tombstones-before.Tombstones)
	x.add("partitions read", "%d", r.Cost.Partitions-before.Partitions)
	x.add("commands", "%d", r.Cost.Commands-before.Commands)
	x.add("bytes read", "%d", r.Cost.Bytes-before.Bytes)
	x.add("more pages", "%t", rows.PagingState != nil)
	x.add("time", "%s", took.Round(time.Microsecond))
	// EXPLAIN discards the rows.
	rows.Buffer.Release()
	return nil
}
