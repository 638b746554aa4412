package system

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cqld/internal/wire"
	"cqld/query/mask"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// keyspaces calls f for every keyspace that is virtual in Cassandra, or for every one that is not. It calls f in the
// order of their names.
func (s *Source) keyspaces(virtual bool, f func(*schema.Keyspace)) {
	now := s.o.View.Schema()
	for _, name := range now.KeyspaceNames() {
		if k := now.Keyspace(name); k.Virtual == virtual {
			f(k)
		}
	}
}

// schemaRows adds the rows of system_schema. There are no triggers, so their table is empty. A driver reads the rows of
// one table after each change of the schema, and all rows page by page: neither costs all tables or all keyspaces. The
// partition key of all its tables is keyspace_name.
func (s *Source) schemaRows(b *builder) {
	now := s.o.View.Schema()
	if !b.cmd.Reversed {
		b.limit = b.cmd.Limits.Rows // rows come in the order in which the command reads them
	}
	s.keyspaceOrder.of(now, func() []string {
		return slices.DeleteFunc(now.KeyspaceNames(), func(name string) bool { return now.Keyspace(name).Virtual })
	}).each(b, func(name string) { s.keyspaceRows(b, now.Keyspace(name)) })
}

// keyspaceRows adds the rows of system_schema about one keyspace. Rows are added in the order of the clustering, for
// the limit of b.
func (s *Source) keyspaceRows(b *builder, k *schema.Keyspace) {
	switch b.table.Name {
	case "keyspaces":
		b.add(values{"keyspace_name": text(k.Name), "durable_writes": boolean(k.DurableWrites),
			"replication": textMap(replicationMap(k.Replication))})
	// The schema stores views as tables with View set.
	case "tables", "views":
		b.eachTable(k, func(t *schema.Table) {
			switch {
			case t.View == nil && b.table.Name == "tables":
				b.add(tableValues(t))
			case t.View != nil && b.table.Name == "views":
				b.add(viewValues(k, t))
			}
		})
	case "columns":
		columnRows(b, k)
	case "column_masks":
		maskRows(b, k)
	case "column_constraints":
		constraintRows(b, k)
	case "dropped_columns":
		droppedRows(b, k)
	case "types":
		typeRows(b, k)
	case "indexes":
		indexRows(b, k)
	case "functions":
		functionRows(b, k)
	case "aggregates":
		aggregateRows(b, k)
	}
}

// replicationMap returns a replication as system_schema.keyspaces shows it. For example {'class':
// 'org.apache.cassandra.locator.NetworkTopologyStrategy', 'dc1': '3'}.
func replicationMap(r ring.Replication) map[string]string {
	// The name is qualified, as drivers expect.
	m := map[string]string{"class": r.Class.Name()}
	if r.Class == ring.Simple {
		m["replication_factor"] = strconv.Itoa(r.Factor)
	}
	// NetworkTopologyStrategy has a factor for each data center.
	for _, f := range r.Definition().Datacenters {
		m[f.Datacenter] = strconv.Itoa(f.Factor)
	}
	return m
}

// tableValues returns a table's options. An option that Cassandra 4 does not have is null if it has the default value:
// drivers interpret null as the default. The flags contain compound, and others for COMPACT STORAGE.
func tableValues(t *schema.Table) values {
	v := optionValues(t)
	v["table_name"], v["flags"] = text(t.Name), texts(t.Flags())
	return v
}

// optionValues returns the options of a table or of a view. The columns of both tables are the same, except for names
// and the definition of a view.
func optionValues(t *schema.Table) values {
	o := &t.Options
	v := values{
		"keyspace_name":           text(t.Keyspace),
		"additional_write_policy": text(o.AdditionalWritePolicy),
		"bloom_filter_fp_chance":  double(o.BloomFilterFPChance),
		"caching":                 textMap(o.Caching),
		"comment":                 text(o.Comment),
		"compaction":              textMap(o.Compaction),
		"compression":             textMap(o.Compression),
		"crc_check_chance":        double(o.CRCCheckChance),
		// Cassandra 4 removed these options, but still has their columns: they are 0.
		"dclocal_read_repair_chance":  double(0),
		"default_time_to_live":        integer(o.DefaultTTL),
		"extensions":                  blobMap(o.Extensions),
		"gc_grace_seconds":            integer(o.GCGraceSeconds),
		"id":                          uuid(t.ID),
		"max_index_interval":          integer(o.MaxIndexInterval),
		"memtable_flush_period_in_ms": integer(o.MemtableFlushPeriodMs),
		"min_index_interval":          integer(o.MinIndexInterval),
		"read_repair":                 text(o.ReadRepair),
		"read_repair_chance":          double(0),
		"speculative_retry":           text(o.SpeculativeRetry),
	}
	// A value other than the default is shown.
	// The following columns are null for the default.
	if !o.AllowAutoSnapshot {
		v["allow_auto_snapshot"] = boolean(false)
	}
	if !o.IncrementalBackups {
		v["incremental_backups"] = boolean(false)
	}
	if o.CDC {
		v["cdc"] = boolean(true)
	}
	if o.Memtable != "default" {
		v["memtable"] = text(o.Memtable)
	}
	return v
}

// blobMap returns a map of text to blob, sorted by key.
func blobMap(m map[string][]byte) []byte {
	b := wire.AppendInt32(nil, int32(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = wire.AppendBytes(b, text(k))
		b = wire.AppendBytes(b, append([]byte{}, m[k]...))
	}
	return b
}

// viewValues returns the definition of a view in k. The base table is also from k, so all rows are from one snapshot.
// The WHERE clause is null if there is no base table. A base table that was dropped and created again has another ID.
func viewValues(k *schema.Keyspace, t *schema.Table) values {
	v := optionValues(t)
	v["view_name"], v["base_table_name"], v["base_table_id"] = text(t.Name), text(t.View.Base), uuid(t.View.BaseID)
	v["include_all_columns"] = boolean(t.View.All)
	// The clause is written with the current column names of the base table.
	if base := k.Table(t.View.Base); base != nil && base.ID == t.View.BaseID {
		v["where_clause"] = text(t.WhereText(base))
	}
	return v
}

// columnRows adds the columns of the tables and views of a keyspace.
func columnRows(b *builder, k *schema.Keyspace) {
	b.eachTable(k, func(t *schema.Table) {
		// Stored columns include the columns that COMPACT STORAGE hides from CQL.
		columns := t.StoredColumns()
		b.eachColumn(t, len(columns), func(i int) string { return columns[i].Name }, func(i int) {
			// Columns outside the clustering key have the order "none".
			c, order := columns[i], "none"
			if c.Kind == schema.Clustering {
				order = "asc"
				if c.Desc {
					order = "desc"
				}
			}
			b.add(values{"keyspace_name": text(k.Name), "table_name": text(t.Name), "column_name": text(c.Name),
				"clustering_order": text(order), "column_name_bytes": text(c.Name), "kind": text(c.Kind.String()),
				"position": integer(int32(c.Position)), "type": text(c.Type.String())})
		})
	})
}

// maskRows adds a row for each masked column, with the constant arguments of its function. A column mask_inner(1, null)
// has the nulls [false, true], so a null argument differs from the text null.
func maskRows(b *builder, k *schema.Keyspace) {
	b.eachTable(k, func(table *schema.Table) {
		for _, c := range table.Columns() {
			if c.Mask == nil {
				continue
			}
			// Three parallel lists: whether an argument is null, its type, and its value as a literal.
			nulls, shown, classes := wire.AppendInt32(nil, int32(len(c.Mask.Args))), []string{}, []string{}
			for i, t := range mask.ArgumentTypes(c) {
				v := c.Mask.Args[i]
				nulls = wire.AppendBytes(nulls, boolean(v == nil))
				shown, classes = append(shown, mask.ValueText(t, v)), append(classes, t.String())
			}
			// Native functions are in the keyspace system.
			of := c.Mask.Keyspace
			if of == "" {
				of = "system"
			}
			b.add(values{"keyspace_name": text(k.Name), "table_name": text(table.Name), "column_name": text(c.Name),
				"function_argument_nulls": nulls, "function_argument_types": texts(classes),
				"function_argument_values": texts(shown),
				"function_keyspace":        text(of), "function_name": text(c.Mask.Function)})
		}
	})
}

// constraintRows appends the constraints of CHECK.
func constraintRows(b *builder, k *schema.Keyspace) {
	b.eachTable(k, func(t *schema.Table) {
		for _, c := range t.Columns() {
			// A view shows no constraints: those of its base table apply.
			if check := c.CheckText(); check != "" && t.View == nil {
				b.add(values{"keyspace_name": text(k.Name), "table_name": text(t.Name), "column_name": text(c.Name),
					"constraints": text(check)})
			}
		}
	})
}

// droppedRows adds dropped columns, whose cells are ignored up to dropped_time, in milliseconds. Micros is the
// timestamp up to which cells are ignored.
func droppedRows(b *builder, k *schema.Keyspace) {
	b.eachTable(k, func(t *schema.Table) {
		// Columns of views cannot be dropped.
		if t.View != nil {
			return
		}
		b.eachColumn(t, len(t.Dropped), func(i int) string { return t.Dropped[i].Name }, func(i int) {
			d := &t.Dropped[i]
			b.add(values{"keyspace_name": text(k.Name), "table_name": text(t.Name), "column_name": text(d.Name),
				"dropped_time": bigint(d.Micros / 1000), "kind": text(d.Kind.String()), "type": text(d.Type.String())})
		})
	})
}

// typeRows adds the user-defined types of a keyspace.
func typeRows(b *builder, k *schema.Keyspace) {
	names := k.TypeNames()
	b.eachNamed(nil, len(names), func(i int) string { return names[i] }, func(i int) {
		name, t := names[i], k.Type(names[i])
		var fieldTypes []string
		for _, e := range t.Elems() {
			fieldTypes = append(fieldTypes, e.String())
		}
		b.add(values{"keyspace_name": text(k.Name), "type_name": text(name),
			"field_names": texts(t.FieldNames()), "field_types": texts(fieldTypes)})
	})
}

// virtualSchemaRows adds the rows of system_virtual_schema. They are the keyspaces that are virtual in Cassandra;
// system_schema contains the others.
func (s *Source) virtualSchemaRows(b *builder) {
	s.keyspaces(true, func(k *schema.Keyspace) {
		switch b.table.Name {
		case "keyspaces":
			b.add(values{"keyspace_name": text(k.Name)})
		case "tables":
			for _, name := range k.TableNames() {
				b.add(values{"keyspace_name": text(k.Name), "table_name": text(name),
					"comment": text(k.Table(name).Options.Comment)})
			}
		case "columns":
			columnRows(b, k)
		}
	})
}

// indexRows adds the secondary indexes of a keyspace.
func indexRows(b *builder, k *schema.Keyspace) {
	b.eachTable(k, func(t *schema.Table) {
		all := t.Indexes()
		b.eachColumn(t, len(all), func(i int) string { return all[i].Name }, func(i int) {
			ix := all[i]
			b.add(values{"keyspace_name": text(k.Name), "table_name": text(t.Name), "index_name": text(ix.Name),
				"kind": text(ix.Kind), "options": textMap(t.ShownOptions(ix))})
		})
	})
}

// typeTexts returns the types of functions as system_schema shows them: tuples are frozen, user-defined types as
// declared.
func typeTexts(list []*types.Type) []string {
	texts := make([]string, len(list))
	for i, t := range list {
		texts[i] = t.String()
	}
	return texts
}

// functionRows adds the user-defined functions of a keyspace.
func functionRows(b *builder, k *schema.Keyspace) {
	eachOverloaded(b, k.Functions(), func(f *schema.Function) string { return f.Name }, func(f *schema.Function) {
		b.add(values{"keyspace_name": text(k.Name), "function_name": text(f.Name),
			"argument_types": texts(typeTexts(f.ArgTypes)),
			"argument_names": texts(f.ArgNames), "body": text(f.Body), "called_on_null_input": boolean(f.CalledOnNull),
			"language": text(f.Language), "return_type": text(f.Returns.String())})
	})
}

// aggregateRows adds the user-defined aggregates of a keyspace.
func aggregateRows(b *builder, k *schema.Keyspace) {
	eachOverloaded(b, k.Aggregates(), func(a *schema.Aggregate) string { return a.Name }, func(a *schema.Aggregate) {
		v := values{"keyspace_name": text(k.Name), "aggregate_name": text(a.Name),
			"argument_types": texts(typeTexts(a.ArgTypes)),
			"state_func":     text(a.StateFunction), "state_type": text(a.StateType.String()),
			"return_type": text(a.Returns.String())}
		// A missing final function or initial condition is null.
		if a.FinalFunction != "" {
			v["final_func"] = text(a.FinalFunction)
		}
		if a.Initial != nil {
			// As a CQL literal, from which DESCRIBE is made.
			v["initcond"] = text(string(a.StateType.AppendLiteral(nil, a.Initial)))
		}
		b.add(v)
	})
}

// eachOverloaded calls add for the elements whose rows the command may read. It adds all overloads of a name together:
// the order of signatures may differ from the clustering order, so cutting between overloads could lose a row. It sorts
// all, which the caller must own. The sort is stable, so overloads keep the order of the schema.
func eachOverloaded[E any](b *builder, all []E, name func(E) string, add func(E)) {
	slices.SortStableFunc(all, func(x, y E) int { return strings.Compare(name(x), name(y)) })
	var starts []int // of the elements with one name
	for i := range all {
		if i == 0 || name(all[i]) != name(all[i-1]) {
			starts = append(starts, i)
		}
	}
	b.eachNamed(nil, len(starts), func(i int) string { return name(all[starts[i]]) }, func(i int) {
		for j := starts[i]; j < len(all) && name(all[j]) == name(all[starts[i]]); j++ {
			add(all[j])
		}
	})
}
