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

// guarding applies the guardrails to definitions, which it does not change. Warnings go to the guard, errors become the
// refusal of the definition. A guardrail is skipped if Apply will refuse or ignore the change: the client gets that
// answer.
type guarding struct {
	*guardrail.Guard // nil means that the client is not bound
	schema           *schema.Schema
}

// apply returns a definition, or its refusal by a guardrail. Changes without a guardrail pass.
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
	// Only a new replication is checked: ALTER KEYSPACE may change durable_writes of a keyspace that violates a
	// guardrail.
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
	// The view counts itself. A view that exists is left to Apply.
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
	// Fields are counted as they will be.
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

// keyspace checks CREATE KEYSPACE: the replication, and the number of keyspaces of users with the new one.
func (g guarding) keyspace(c *schema.CreateKeyspace) error {
	if g.schema.Keyspace(c.Keyspace) != nil {
		return nil
	}
	return g.oneMore(c.Keyspace, c.Replication)
}

// oneMore checks the replication of a new keyspace, and the number of keyspaces with it.
func (g guarding) oneMore(name string, r ring.Replication) error {
	if err := g.replication(name, r); err != nil {
		return err
	}
	// The new one. System keyspaces do not count.
	count := 1
	for _, name := range g.schema.KeyspaceNames() {
		if !schema.IsSystem(name) {
			count++
		}
	}
	return g.Within(guardrail.Keyspaces, int64(count), name)
}

// replication checks the strategy and each factor. For NetworkTopologyStrategy these are the factors of the data
// centers, one by one.
func (g guarding) replication(keyspace string, r ring.Replication) error {
	if r.Class == ring.Simple {
		if err := g.Enabled(guardrail.SimpleStrategy); err != nil {
			return err
		}
	}
	factors := []int{r.Factor}
	if r.Class != ring.Simple {
		factors = nil
		// Data centers with the factor 0 are not in the list.
		for _, f := range r.Datacenters {
			factors = append(factors, f.Factor)
		}
	}
	// The first factor beyond a bound decides; factors that only warn do not end the loop.
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

// table checks CREATE TABLE: compact storage, the number of tables and columns, vectors, and options. Tables are
// counted in all keyspaces of users.
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
	// With the new one.
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

// columns checks the vectors among new columns. The other guardrails on types concern values.
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

// options checks the options of a table that has them after the change. created means that the compaction strategy is
// new: only then is a missing TTL reported.
func (g guarding) options(o *schema.Options, created bool) error {
	// Compression is a map of strings in the schema; ParseCompression has set it to this text.
	if o.Compression["enabled"] == "false" {
		if err := g.Enabled(guardrail.UncompressedTables); err != nil {
			return err
		}
	}
	// The guardrail is on windows that are never dropped, because nothing in them expires.
	if created && o.DefaultTTL == 0 && strings.HasSuffix(o.Compaction["class"], "TimeWindowCompactionStrategy") {
		return g.ZeroTTL()
	}
	return nil
}

// alter checks ALTER TABLE. A statement has one action, so that at most one of the lists is not empty.
func (g guarding) alter(c *schema.AlterTable) error {
	t := g.schema.Table(c.Keyspace, c.Table)
	if t == nil {
		return nil
	}
	// The guardrail is on changes of columns, not of options.
	if len(c.Add) > 0 || len(c.Drop) > 0 || len(c.Rename) > 0 {
		if err := g.Enabled(guardrail.AlterTable); err != nil {
			return err
		}
	}
	if len(c.Add) > 0 {
		// Stored columns include the columns that a compact table hides.
		if err := g.Within(guardrail.ColumnsPerTable, int64(len(t.StoredColumns())+len(c.Add)),
			c.Table); err != nil {
			return err
		}
		return g.columns(c.Add)
	}
	// c.Options contains the values of the table with the ones of the statement.
	if len(c.Set) > 0 {
		// Other options do not make the strategy new.
		return g.options(&c.Options, slices.Contains(c.Set, "compaction"))
	}
	return nil
}

// properties refuses or warns of properties of a table, and returns those that are not ignored. It is called before the
// properties are read: a property that is ignored need not be valid. The statement's own list stays as it is.
func (g guarding) properties(p cql.Properties) (cql.Properties, error) {
	if g.Guard == nil {
		return p, nil
	}
	var names []string
	for i := range p {
		names = append(names, p[i].Name)
	}
	// The warning lists the names in this order.
	slices.Sort(names)
	// The guard refuses, warns of or ignores names. A name in ignored is not in the result.
	ignored, err := g.Permitted(guardrail.TableProperties, names...)
	if err != nil || ignored == nil {
		return p, err
	}
	return slices.DeleteFunc(slices.Clone(p), func(x cql.Property) bool { return slices.Contains(ignored, x.Name) }),
		nil
}
