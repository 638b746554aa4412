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

// guard applies the guardrails to the change of a definition.
func (d *Definer) guard(def Definition) Definition {
	if d.Guard == nil || def.err != nil {
		return def
	}
	var err error
	switch c := def.Change.(type) {
	case *schema.CreateKeyspace:
		err = d.guardKeyspace(c)
	case *schema.AlterKeyspace:
		if c.Replication != nil {
			err = d.guardReplication(c.Keyspace, *c.Replication)
		}
	case *schema.DropKeyspace:
		err = d.Guard.Enabled(guardrail.DropKeyspace)
	case *schema.CreateTable:
		err = d.guardTable(c)
	case *schema.AlterTable:
		err = d.guardAlter(c)
	case *schema.CreateView:
		if base := d.Schema.Table(c.Keyspace, c.Base); base != nil && d.Schema.Table(c.Keyspace, c.View) == nil {
			err = d.Guard.Within(guardrail.MaterializedViewsPerTable, int64(len(base.Views())+1),
				c.View+" on table "+base.Name)
		}
	case *schema.DropTable:
		err = d.Guard.Enabled(guardrail.DropTruncateTable)
	case *schema.CreateType:
		err = d.Guard.Within(guardrail.FieldsPerUDT, int64(len(c.Type.FieldNames())), c.Type.UDTName())
	case *schema.AlterType:
		if k := d.Schema.Keyspace(c.Keyspace); c.FieldType != nil && k != nil && k.Type(c.Name) != nil {
			err = d.Guard.Within(guardrail.FieldsPerUDT, int64(len(k.Type(c.Name).FieldNames())+1), c.Name)
		}
	}
	if err != nil {
		return refuse(err)
	}
	return def
}

func (d *Definer) guardKeyspace(c *schema.CreateKeyspace) error {
	if d.Schema.Keyspace(c.Keyspace) != nil {
		return nil
	}
	if err := d.guardReplication(c.Keyspace, c.Replication); err != nil {
		return err
	}
	count := 1
	for _, name := range d.Schema.KeyspaceNames() {
		if !schema.IsSystem(name) {
			count++
		}
	}
	return d.Guard.Within(guardrail.Keyspaces, int64(count), c.Keyspace)
}

func (d *Definer) guardReplication(keyspace string, r ring.Replication) error {
	if r.Class == ring.Simple {
		if err := d.Guard.Enabled(guardrail.SimpleStrategy); err != nil {
			return err
		}
	}
	factors := []int{r.Factor}
	if r.Class != ring.Simple {
		factors = nil
		for _, f := range r.Datacenters {
			factors = append(factors, f.Factor)
		}
	}
	for _, factor := range factors {
		if err := d.Guard.Within(guardrail.MinimumReplicationFactor, int64(factor), keyspace); err != nil {
			return err
		}
		if err := d.Guard.Within(guardrail.MaximumReplicationFactor, int64(factor), keyspace); err != nil {
			return err
		}
	}
	return nil
}

func (d *Definer) guardTable(c *schema.CreateTable) error {
	if k := d.Schema.Keyspace(c.Keyspace); k == nil || k.Table(c.Table) != nil {
		return nil
	}
	if c.Compact != schema.NotCompact {
		if err := d.Guard.Enabled(guardrail.CompactTables); err != nil {
			return err
		}
	}
	count := 1
	for _, name := range d.Schema.KeyspaceNames() {
		if !schema.IsSystem(name) {
			count += d.Schema.Keyspace(name).TableCount()
		}
	}
	if err := d.Guard.Within(guardrail.Tables, int64(count), c.Table); err != nil {
		return err
	}
	if err := d.Guard.Within(guardrail.ColumnsPerTable, int64(len(c.Columns)), c.Table); err != nil {
		return err
	}
	if err := d.guardColumns(c.Columns); err != nil {
		return err
	}
	return d.guardOptions(&c.Options, true)
}

func (d *Definer) guardColumns(specs []schema.ColumnSpec) error {
	for _, s := range specs {
		if s.Type.Kind() != types.Vector {
			continue
		}
		if err := d.Guard.EnabledFor(guardrail.VectorType, "Column "+s.Name); err != nil {
			return err
		}
		if err := d.Guard.Within(guardrail.VectorDimensions, int64(s.Type.Dimensions()), s.Name); err != nil {
			return err
		}
	}
	return nil
}

// guardOptions checks the options of a table that has them after the change.
func (d *Definer) guardOptions(o *schema.Options, created bool) error {
	if o.Compression["enabled"] == "false" {
		if err := d.Guard.Enabled(guardrail.UncompressedTables); err != nil {
			return err
		}
	}
	if created && o.DefaultTTL == 0 && strings.HasSuffix(o.Compaction["class"], "TimeWindowCompactionStrategy") {
		return d.Guard.ZeroTTL()
	}
	return nil
}

func (d *Definer) guardAlter(c *schema.AlterTable) error {
	t := d.Schema.Table(c.Keyspace, c.Table)
	if t == nil {
		return nil
	}
	if len(c.Add) > 0 || len(c.Drop) > 0 || len(c.Rename) > 0 {
		if err := d.Guard.Enabled(guardrail.AlterTable); err != nil {
			return err
		}
	}
	if len(c.Add) > 0 {
		if err := d.Guard.Within(guardrail.ColumnsPerTable, int64(len(t.StoredColumns())+len(c.Add)),
			c.Table); err != nil {
			return err
		}
		return d.guardColumns(c.Add)
	}
	if len(c.Set) > 0 {
		return d.guardOptions(&c.Options, slices.Contains(c.Set, "compaction"))
	}
	return nil
}

// guardProperties refuses or warns of properties of a table, and returns those that are not ignored.
func (d *Definer) guardProperties(p cql.Properties) (cql.Properties, error) {
	if d.Guard == nil {
		return p, nil
	}
	var names []string
	for i := range p {
		names = append(names, p[i].Name)
	}
	slices.Sort(names)
	ignored, err := d.Guard.Permitted(guardrail.TableProperties, names...)
	if err != nil || ignored == nil {
		return p, err
	}
	return slices.DeleteFunc(slices.Clone(p), func(x cql.Property) bool { return slices.Contains(ignored, x.Name) }),
		nil
}
