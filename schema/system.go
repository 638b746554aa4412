package schema

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"cqld/ring"
	"cqld/schema/systemtables"
	"cqld/types"
)

// PaxosTable is the storage id of system.paxos, which contains the state of acceptors.
const PaxosTable StorageID = 8

// Initial returns the schema of a new cluster, which has only the system keyspaces. All nodes of a new cluster must
// start with the same schema.
func Initial() *Schema { return Empty().withSystem(func(string) bool { return true }) }

// Own returns the local and virtual system keyspaces, which the program itself defines in every cluster. They may
// differ between versions, so nothing on which nodes agree may depend on them.
func Own() *Schema { return Empty().withOwn() }

// withOwn returns s with the keyspaces of Own, which replace older versions of them.
func (s *Schema) withOwn() *Schema {
	return s.withSystem(func(name string) bool { return !IsReplicatedSystem(name) })
}

// withSystem returns s with the program's system keyspaces for which wanted returns true. nextStorage stays.
func (s *Schema) withSystem(wanted func(name string) bool) *Schema {
	keyspaces := maps.Clone(s.keyspaces)
	for _, own := range systemKeyspaces() {
		if wanted(own.Name) {
			keyspaces[own.Name] = own
		}
	}
	return build(keyspaces, s.dropped, s.nextStorage)
}

// systemKeyspaces returns the keyspaces that the program defines. Replication factors are Cassandra's. All schemas of a
// process share these values, which are never modified.
var systemKeyspaces = sync.OnceValue(func() []*Keyspace {
	// Each node stores or computes its own rows of these keyspaces.
	local := ring.Replication{Class: ring.Local}
	simple := func(factor int) ring.Replication { return ring.Replication{Class: ring.Simple, Factor: factor} }
	return []*Keyspace{
		systemKeyspace("system", local, systemtables.System, systemOptions),
		systemKeyspace("system_schema", local, systemtables.SystemSchema, systemSchemaOptions),
		systemKeyspace("system_auth", simple(1), systemtables.SystemAuth, systemAuthOptions),
		systemKeyspace("system_distributed", simple(3), systemtables.SystemDistributed, systemDistributedOptions),
		systemKeyspace("system_traces", simple(2), systemtables.SystemTraces, systemTracesOptions),
		systemKeyspace("system_virtual_schema", local, systemtables.SystemVirtualSchema, virtualOptions),
		systemKeyspace("system_views", local, systemtables.SystemViews, virtualOptions),
	}
})

// systemOptions returns the options of tables in the keyspace system. They are Cassandra's.
func systemOptions(table string) Options {
	o := DefaultOptions()
	o.GCGraceSeconds = 0
	o.MemtableFlushPeriodMs = 3600000
	// DefaultOptions allocates the maps of o, so they can be modified.
	switch table {
	case "batches":
		o.Compaction["min_threshold"] = "2"
	case "compaction_history":
		o.DefaultTTL = 604800
	case "paxos":
		o.Compaction["class"] = "org.apache.cassandra.db.compaction.LeveledCompactionStrategy"
	}
	return o
}

// systemSchemaOptions returns the options of tables in system_schema: a week of grace.
func systemSchemaOptions(string) Options {
	o := DefaultOptions()
	o.GCGraceSeconds = 604800
	o.MemtableFlushPeriodMs = 3600000
	return o
}

// systemAuthOptions returns the options of tables in system_auth: 90 days of grace.
func systemAuthOptions(string) Options {
	o := DefaultOptions()
	o.GCGraceSeconds = 7776000
	return o
}

// systemDistributedOptions returns the options of tables in system_distributed. Histories of repairs expire after 30
// days.
func systemDistributedOptions(table string) Options {
	o := DefaultOptions()
	if strings.HasSuffix(table, "repair_history") {
		o.DefaultTTL = 2592000
		maps.Copy(o.Compaction, map[string]string{"compaction_window_size": "1", "compaction_window_unit": "DAYS",
			"class": "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy"})
	}
	return o
}

// systemTracesOptions returns the options of tables in system_traces.
func systemTracesOptions(string) Options {
	o := DefaultOptions()
	o.GCGraceSeconds = 0
	return o
}

// virtualOptions returns the options of virtual tables, which have none in CQL.
func virtualOptions(string) Options { return DefaultOptions() }

// systemKeyspace parses the definition of a keyspace (package systemtables has the syntax). It panics on an invalid
// definition, which would be a bug in this program. The result is linked.
func systemKeyspace(name string, r ring.Replication, definition string, options func(string) Options) *Keyspace {
	k := NewKeyspace(name, r, true)
	k.Virtual = IsVirtualSystem(name)
	var t *Table
	for line := range strings.Lines(definition) {
		line = strings.TrimRight(line, "\n")
		// A tab at the beginning distinguishes lines with columns from headings.
		columns, isColumns := strings.CutPrefix(line, "\t")
		switch {
		// The first line of each constant is empty.
		case line == "":
		case isColumns:
			for spec := range strings.SplitSeq(strings.Trim(columns, "; "), "; ") {
				t.addSystemColumn(spec)
			}
		default:
			heading, comment, _ := strings.Cut(line, " | ")
			number, table, _ := strings.Cut(heading, " ")
			id, err := strconv.Atoi(number)
			if err != nil || id <= 0 || StorageID(id) >= FirstStorageID {
				panic("schema: definition of system table: " + line)
			}
			// The id is the same in every cluster and version: like Cassandra, it is derived from the names.
			t = &Table{ID: nameUUID([]byte(name + table)), StorageID: StorageID(id), Keyspace: name, Name: table,
				Options: options(table), Replication: r, Virtual: !IsReplicatedSystem(name)}
			// A comment that ends with a bar is quoted by a second one.
			t.Options.Comment = strings.TrimSuffix(comment, " |")
			k.tables[table] = t
		}
	}
	// All columns are in their lists now.
	for _, t := range k.tables {
		t.Seal()
	}
	k.link()
	return k
}

// addSystemColumn parses "name type" or "name type K", where K is the letter of a kind. Ids are in the order of the
// definition.
//
//	key text P                       the partition key
//	index_name text C                a clustering column; D is descending
//	ranges set<blob>                 a regular column
//	options frozen<map<text, text>>  also regular: the second to last character is not a space
func (t *Table) addSystemColumn(spec string) {
	name, text, ok := strings.Cut(spec, " ")
	c := &Column{ID: t.NextColumn, Name: name, Kind: Regular, Position: -1}
	t.NextColumn++
	// The letter is the last character and follows a space. Types may contain spaces, too.
	rest := len(text) - 2
	if rest > 0 && text[rest] == ' ' {
		// Other letters leave a regular column.
		switch text[rest+1] {
		case 'P':
			c.Kind, c.Position = PartitionKey, len(t.PartitionKey)
		case 'C', 'D':
			c.Kind, c.Position, c.Desc = Clustering, len(t.Clustering), text[rest+1] == 'D'
		case 'S':
			c.Kind = Static
		}
		text = text[:rest]
	}
	var err error
	if c.Type, err = parseSystemType(text); err != nil || !ok {
		panic(fmt.Sprintf("schema: definition of system column %q: %v", spec, err))
	}
	switch c.Kind {
	case PartitionKey:
		t.PartitionKey = append(t.PartitionKey, c)
	case Clustering:
		t.Clustering = append(t.Clustering, c)
	case Static:
		t.Statics = append(t.Statics, c)
	default:
		t.Regulars = append(t.Regulars, c)
	}
}

// parseSystemType parses the types of system tables: native types, frozen<>, and collections and tuples of them.
func parseSystemType(text string) (*types.Type, error) {
	if inner, ok := strings.CutPrefix(text, "frozen<"); ok {
		t, err := parseSystemType(strings.TrimSuffix(inner, ">"))
		if err != nil {
			return nil, err
		}
		return t.Freeze(), nil
	}
	// Only the outermost <> is removed: splitTypes splits the parts.
	word, inner, ok := strings.Cut(text, "<")
	if !ok {
		if t, found := types.NativeByName(text); found {
			return t, nil
		}
		return nil, fmt.Errorf("%q is not a type", text)
	}
	var parts []*types.Type
	for _, part := range splitTypes(strings.TrimSuffix(inner, ">")) {
		t, err := parseSystemType(part)
		if err != nil {
			return nil, err
		}
		parts = append(parts, t)
	}
	switch {
	case word == "list" && len(parts) == 1:
		return types.NewList(parts[0], false), nil
	case word == "set" && len(parts) == 1:
		return types.NewSet(parts[0], false), nil
	case word == "map" && len(parts) == 2:
		return types.NewMap(parts[0], parts[1], false), nil
	case word == "tuple" && len(parts) > 0:
		return types.NewTuple(parts...), nil
	}
	return nil, fmt.Errorf("%q is not a type", text)
}

// splitTypes splits at commas outside of <>, and removes spaces around the parts.
//
//	text, frozen<map<int, text>>   becomes text and frozen<map<int, text>>
func splitTypes(text string) []string {
	var parts []string
	depth, start := 0, 0
	for i, c := range text {
		switch {
		case c == '<':
			depth++
		case c == '>':
			depth--
		// Commas at a greater depth belong to nested types.
		case c == ',' && depth == 0:
			parts = append(parts, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	return append(parts, strings.TrimSpace(text[start:]))
}
