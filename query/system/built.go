package system

import (
	"strconv"

	"cqld/ring"
	"cqld/schema"
	"cqld/types"
	"cqld/types/analysis"
)

// Build is how far an index, or the index of a materialized view, is built on this node. Builds are local: each node
// builds the entries of its own rows.
type Build struct {
	Built bool
	// Next is the token from which the build continues. Begun means that there is one.
	Next  ring.Token
	Begun bool
	Rows  int64 // that this process has read for the build
}

// Builds are the builds of indexes, for the system tables that show them. A nil function leaves its tables empty. A
// page calls Of once for each index. Unbuilt sends a message to every node.
type Builds struct {
	// Of returns the build of an index on this node.
	Of func(table, index schema.StorageID) Build
	// Unbuilt returns the indexes that each node of the ring has not built yet. It sends a request to the other nodes;
	// nodes that do not respond are missing from the map.
	Unbuilt func() map[ring.NodeID][]schema.StorageID
}

// eachView calls f for every materialized view and its base table. A view without its base table is omitted. The order
// is the order of the names, so pages are consistent while the schema does not change.
func (s *Source) eachView(f func(view, base *schema.Table)) {
	s.keyspaces(false, func(k *schema.Keyspace) {
		for _, name := range k.ViewNames() {
			if view := k.Table(name); view != nil && k.Table(view.View.Base) != nil {
				f(view, k.Table(view.View.Base))
			}
		}
	})
}

// eachIndex calls f for every secondary index.
func (s *Source) eachIndex(f func(t *schema.Table, x *schema.Index)) {
	s.keyspaces(false, func(k *schema.Keyspace) {
		for _, name := range k.TableNames() {
			for _, x := range k.Table(name).Indexes() {
				f(k.Table(name), x)
			}
		}
	})
}

// indexInfoRows adds the rows of system."IndexInfo": the indexes that this node has built. The column table_name
// contains the keyspace, as in Cassandra. The name of the table is case-sensitive: drivers quote it.
func (s *Source) indexInfoRows(b *builder) {
	if s.o.Builds.Of == nil {
		return
	}
	s.eachIndex(func(t *schema.Table, x *schema.Index) {
		if s.o.Builds.Of(t.StorageID, x.ID).Built {
			b.add(values{"table_name": text(t.Keyspace), "index_name": text(x.Name)})
		}
	})
}

// builtRows adds the rows of system.built_views: the views whose indexes this node has built. In Cassandra,
// status_replicated says whether the other nodes have been notified of the build; here they query it.
func (s *Source) builtRows(b *builder) {
	if s.o.Builds.Of == nil {
		return
	}
	s.eachView(func(view, base *schema.Table) {
		if s.o.Builds.Of(base.StorageID, view.StorageID).Built {
			b.add(values{"keyspace_name": text(view.Keyspace), "view_name": text(view.Name),
				"status_replicated": boolean(true)})
		}
	})
}

// buildingRows adds the rows of system.view_builds_in_progress. A node builds an index over all its tokens in one pass.
// Cassandra divides the ring into ranges and has a row for each; here start and end are the minimum token.
func (s *Source) buildingRows(b *builder) {
	if s.o.Builds.Of == nil {
		return
	}
	s.eachView(func(view, base *schema.Table) {
		build := s.o.Builds.Of(base.StorageID, view.StorageID)
		// Complete builds are in built_views.
		if build.Built {
			return
		}
		// The range from the minimum token to itself is the whole ring.
		least := strconv.FormatInt(int64(ring.MinToken), 10)
		row := values{"keyspace_name": text(view.Keyspace), "view_name": text(view.Name), "start_token": text(least),
			"end_token":  text(least),
			"keys_built": bigint(build.Rows)}
		// Otherwise the build has no position yet.
		if build.Begun {
			row["last_token"] = text(strconv.FormatInt(int64(build.Next), 10))
		}
		b.add(row)
	})
}

// buildStatusRows adds the rows of system_distributed.view_build_status: one for each view and each node that has built
// it or is building it. Reading the table queries the nodes; a node that does not respond has no row.
func (s *Source) buildStatusRows(b *builder) {
	if s.o.Builds.Unbuilt == nil {
		return
	}
	var unbuilt map[ring.NodeID][]schema.StorageID // requested for the first view
	s.eachView(func(view, _ *schema.Table) {
		if unbuilt == nil {
			unbuilt = s.o.Builds.Unbuilt()
		}
		for _, n := range s.o.View.Topology().Nodes() {
			// Nodes whose state is not known have no row, as they have no entry in Cassandra.
			if status := ViewStatus(view, n, unbuilt); status != UnknownView {
				b.add(values{"keyspace_name": text(view.Keyspace), "view_name": text(view.Name),
					"host_id": uuid(n.Host), "status": text(status)})
			}
		}
	})
}

// The build states of a view on a node, in Cassandra's words.
const (
	ViewStarted = "STARTED"
	ViewBuilt   = "SUCCESS"
	UnknownView = "UNKNOWN"
)

// ViewStatus returns the build state of a view on a node. unbuilt is the result of Builds.Unbuilt. A node without
// tokens has no rows to build. The result is UnknownView if the node did not respond.
func ViewStatus(view *schema.Table, n *ring.Node, unbuilt map[ring.NodeID][]schema.StorageID) string {
	of, answered := unbuilt[n.ID]
	if !answered || len(n.Tokens) == 0 {
		return UnknownView
	}
	for _, id := range of {
		if id == view.StorageID {
			return ViewStarted
		}
	}
	return ViewBuilt
}

// columnIndexRows adds the rows of system_views.sai_column_indexes. They are the storage-attached indexes. An index can
// be queried once it is built on this node; other nodes may differ.
func (s *Source) columnIndexRows(b *builder) {
	if s.o.Builds.Of == nil {
		return
	}
	s.eachIndex(func(t *schema.Table, x *schema.Index) {
		c := t.ColumnByID(x.Column)
		if x.Class != schema.SAI || c == nil {
			return
		}
		// The name that Cassandra shows for an index without an analyzer.
		analyzer := "NoOpAnalyzer"
		if a := analysis.Of(x.Class.String(), x.Options); a != nil {
			analyzer = a.String()
		}
		built := s.o.Builds.Of(t.StorageID, x.ID).Built
		b.add(values{"keyspace_name": text(t.Keyspace), "index_name": text(x.Name), "analyzer": text(analyzer),
			"column_name": text(c.Name),
			"is_building": boolean(!built), "is_queryable": boolean(built),
			"is_string": boolean(literal(x.TermTypes(c.Type))), "table_name": text(t.Name)})
	})
}

// literal reports whether Cassandra indexes terms of these types as byte strings. Other terms are compared as numbers
// or fixed-length values.
func literal(parts []*types.Type) bool {
	if len(parts) != 1 {
		return true // an entry of a map
	}
	switch parts[0].Kind() {
	case types.Text, types.Ascii, types.Boolean, types.Vector, types.List, types.Set, types.Map, types.Tuple, types.UDT:
		return true
	}
	return false
}
