package definition

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/query/guardrail"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// guarding applies the guardrails to definitions. Warnings go to the guard; errors refuse the definition. A guardrail
// is skipped if Apply will refuse or ignore the change, so the client receives Apply's answer.
type guarding struct {
	*guardrail.Guard // nil means that the client is not bound
	schema           *schema.Schema
}

// apply returns def, or a refused definition if a guardrail is violated. Changes without a guardrail pass.
//
//	CREATE KEYSPACE         replication, keyspaces
//	ALTER KEYSPACE          replication
//	DROP, PURGE KEYSPACE    guardrail.DropKeyspace
//	CREATE TABLE            compact tables, tables, columns, vectors, options
//	ALTER TABLE             guardrail.AlterTable, columns, vectors, options
//	DROP and PURGE TABLE    guardrail.DropTruncateTable
//	UNDROP TABLE            tables
//	UNDROP KEYSPACE         replication, keyspaces, tables
//	CREATE VIEW             views of the table
//	CREATE and ALTER TYPE   fields
func (g guarding) apply(def Definition) Definition {
	if g.Guard == nil || def.err != nil {
		return def
	}
	var err error
	// A nil change, for example of DROP TRIGGER IF EXISTS, matches no case.
	switch c := def.Change.(type) {
	case *schema.CreateKeyspace:
		err = g.keyspace(c)
	// Only a new replication is checked: durable_writes may be changed in a keyspace that violates a guardrail.
	case *schema.AlterKeyspace:
		if c.Replication != nil {
			err = g.replication(c.Keyspace, *c.Replication)
		}
	case *schema.DropKeyspace:
		err = g.Enabled(guardrail.DropKeyspace)
	case *schema.CreateTable:
		err = g.table(c)
	case *schema.AlterTable:
		err = g.alter(c)
	// The number includes the new view. Apply handles a view that already exists.
	case *schema.CreateView:
		if base := g.schema.Table(c.Keyspace, c.Base); base != nil && g.schema.Table(c.Keyspace, c.View) == nil {
			err = g.Within(guardrail.MaterializedViewsPerTable, int64(len(base.Views())+1),
				c.View+" on table "+base.Name)
		}
	case *schema.DropTable:
		err = g.Enabled(guardrail.DropTruncateTable)
	case *schema.UndropTable:
		err = g.undrop(c)
	case *schema.UndropKeyspace:
		err = g.undropKeyspace(c)
	case *schema.PurgeTables:
		err = g.Enabled(guardrail.DropTruncateTable)
	case *schema.PurgeKeyspaces:
		err = g.Enabled(guardrail.DropKeyspace)
	// The guardrail bounds the number of fields after the change.
	case *schema.CreateType:
		err = g.Within(guardrail.FieldsPerUDT, int64(len(c.Type.FieldNames())), c.Type.UDTName())
	case *schema.AlterType:
		// Renaming fields changes no number.
		if k := g.schema.Keyspace(c.Keyspace); c.FieldType != nil && k != nil && k.Type(c.Name) != nil {
			err = g.Within(guardrail.FieldsPerUDT, int64(len(k.Type(c.Name).FieldNames())+1), c.Name)
		}
	}
	if err != nil {
		return refuse(err)
	}
	return def
}

// keyspace checks CREATE KEYSPACE: its replication, and the number of user keyspaces including the new one.
func (g guarding) keyspace(c *schema.CreateKeyspace) error {
	if g.schema.Keyspace(c.Keyspace) != nil {
		return nil
	}
	return g.oneMore(c.Keyspace, c.Replication)
}

// oneMore checks the replication of a new keyspace, and the number of user keyspaces including the new one.
func (g guarding) oneMore(name string, r ring.Replication) error {
	if err := g.replication(name, r); err != nil {
		return err
	}
	// Starts at 1 for the new keyspace. System keyspaces do not count.
	count := 1
	for _, name := range g.schema.KeyspaceNames() {
		if !schema.IsSystem(name) {
			count++
		}
	}
	return g.Within(guardrail.Keyspaces, int64(count), name)
}

// replication checks the strategy and each replication factor. NetworkTopologyStrategy has one factor for each data
// center.
func (g guarding) replication(keyspace string, r ring.Replication) error {
	if r.Class == ring.Simple {
		if err := g.Enabled(guardrail.SimpleStrategy); err != nil {
			return err
		}
	}
	// The guardrails bound what a statement chooses.
	if r.Class == ring.Everywhere {
		return nil
	}
	factors := []int{r.Factor}
	if r.Class != ring.Simple {
		factors = nil
		// Datacenters omits data centers with factor 0.
		for _, f := range r.Datacenters {
			factors = append(factors, f.Factor)
		}
	}
	// The first factor that violates a limit is reported. Warnings do not end the loop.
	for _, factor := range factors {
		if err := g.Within(guardrail.MinimumReplicationFactor, int64(factor), keyspace); err != nil {
			return err
		}
		if err := g.Within(guardrail.MaximumReplicationFactor, int64(factor), keyspace); err != nil {
			return err
		}
	}
	return nil
}

// table checks CREATE TABLE: compact storage, the number of tables and columns, vectors, and options. The limit on
// tables counts all user keyspaces.
func (g guarding) table(c *schema.CreateTable) error {
	if k := g.schema.Keyspace(c.Keyspace); k == nil || k.Table(c.Table) != nil {
		return nil
	}
	// Compact is set only if the statement asked for it, or the source of a LIKE has it.
	if c.Compact != schema.NotCompact {
		if err := g.Enabled(guardrail.CompactTables); err != nil {
			return err
		}
	}
	// The new table included.
	if err := g.Within(guardrail.Tables, g.tables()+1, c.Table); err != nil {
		return err
	}
	if err := g.Within(guardrail.ColumnsPerTable, int64(len(c.Columns)), c.Table); err != nil {
		return err
	}
	if err := g.columns(c.Columns); err != nil {
		return err
	}
	return g.options(&c.Options, true)
}

// columns checks vectors among new columns. The other guardrails on types concern values.
func (g guarding) columns(specs []schema.ColumnSpec) error {
	for _, s := range specs {
		// Vectors inside of collections are not checked.
		if s.Type.Kind() != types.Vector {
			continue
		}
		if err := g.EnabledFor(guardrail.VectorType, "Column "+s.Name); err != nil {
			return err
		}
		if err := g.Within(guardrail.VectorDimensions, int64(s.Type.Dimensions()), s.Name); err != nil {
			return err
		}
	}
	return nil
}

// options checks the options that a table will have. created means that the compaction strategy is new: a missing TTL
// is reported only then.
func (g guarding) options(o *schema.Options, created bool) error {
	// Compression is a map of strings in the schema; ParseCompression has set it to this text.
	if o.Compression["enabled"] == "false" {
		if err := g.Enabled(guardrail.UncompressedTables); err != nil {
			return err
		}
	}
	// Time windows without a TTL are never dropped, because nothing in them expires.
	if created && o.DefaultTTL == 0 && strings.HasSuffix(o.Compaction["class"], "TimeWindowCompactionStrategy") {
		return g.ZeroTTL()
	}
	return nil
}

// alter checks ALTER TABLE. A statement has one action, so at most one of the lists is not empty.
func (g guarding) alter(c *schema.AlterTable) error {
	t := g.schema.Table(c.Keyspace, c.Table)
	if t == nil {
		return nil
	}
	// The guardrail concerns changes of columns, not of options.
	if len(c.Add) > 0 || len(c.Drop) > 0 || len(c.Rename) > 0 || len(c.Undrop) > 0 {
		if err := g.Enabled(guardrail.AlterTable); err != nil {
			return err
		}
	}
	if added := len(c.Add) + len(c.Undrop); added > 0 {
		// StoredColumns includes the columns that a compact table hides.
		if err := g.Within(guardrail.ColumnsPerTable, int64(len(t.StoredColumns())+added),
			c.Table); err != nil {
			return err
		}
		return g.columns(c.Add)
	}
	// c.Options contains all options of the table after the change.
	if len(c.Set) > 0 {
		// The strategy is new only if the statement sets it.
		return g.options(&c.Options, slices.Contains(c.Set, "compaction"))
	}
	return nil
}

// properties applies the guardrail on table properties, and returns the properties that it does not ignore. It runs
// before values are parsed, because an ignored property need not be valid. It does not modify p.
func (g guarding) properties(p cql.Properties) (cql.Properties, error) {
	if g.Guard == nil {
		return p, nil
	}
	var names []string
	for i := range p {
		names = append(names, p[i].Name)
	}
	// Sorted for the warning, which lists the names.
	slices.Sort(names)
	// ignored lists the names to drop from the result.
	ignored, err := g.Permitted(guardrail.TableProperties, names...)
	if err != nil || ignored == nil {
		return p, err
	}
	return slices.DeleteFunc(slices.Clone(p), func(x cql.Property) bool { return slices.Contains(ignored, x.Name) }),
		nil
}
