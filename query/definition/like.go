package definition

import (
	"slices"
	"strconv"
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/schema"
	"cqld/types"
)

// createTableLike defines CREATE TABLE t LIKE source: it copies the columns with their masks, constraints and defaults,
// and the options, which WITH may override. Comments on columns are copied only WITH COMMENTS, security labels only
// WITH SECURITY LABELS, and indexes only WITH INDEXES. Rows are not copied.
//
// User-defined types are not copied either: a target in another keyspace must have types with the same names and
// fields.
func (d *Definer) createTableLike(stmt *cql.CreateTableLike) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Table)
	if err != nil {
		return refuse(err)
	}
	from, err := d.KeyspaceOf(stmt.Source)
	if err != nil {
		return refuse(err)
	}
	if err := mayChange(keyspace, "CREATE", "all tables in "+keyspace); err != nil {
		return refuse(err)
	}
	// Errors about the source come before errors about the target. Table returns nil for a missing keyspace, too, which
	// has its own message.
	source := d.Schema.Table(from, stmt.Source.Name)
	switch {
	case d.Schema.Keyspace(from) == nil || schema.IsLocalSystem(from) || schema.IsVirtualSystem(from):
		return refuse(invalid.Errorf("Source Keyspace '%s' doesn't exist", from))
	case source == nil:
		return refuse(invalid.Errorf("Source Table '%s.%s' doesn't exist", from, stmt.Source.Name))
	case source.View != nil:
		return refuse(invalid.Errorf("Cannot use CREATE TABLE LIKE on a materialized view '%s.%s'.", from,
			stmt.Source.Name))
	case source.Virtual: // of another keyspace
		return refuse(invalid.Errorf("Cannot use CREATE TABLE LIKE on a virtual table '%s.%s'.", from,
			stmt.Source.Name))
	case d.Schema.Keyspace(keyspace) == nil:
		return refuse(invalid.Errorf("Target Keyspace '%s' doesn't exist", keyspace))
	}
	name := stmt.Table.Name
	// A copy of a compact table is compact.
	c := &schema.CreateTable{Keyspace: keyspace, Table: name, IfNotExists: stmt.IfNotExists, ID: d.NewID(),
		Compact: source.Compact}
	// As in Cassandra, the message is the one of ALTER TABLE.
	if (properties{stmt.Properties}).has("id") {
		return refuse(invalid.Configf("Cannot alter table id."))
	}
	// The source's options replace the defaults.
	if c.Options, _, err = tableOptions(source.Options, stmt.Properties); err != nil {
		return refuse(err)
	}
	// The label is an option in the schema, but not in WITH.
	if !stmt.Labels {
		c.Options.Label = ""
	}
	if c.Columns, err = d.likeColumns(keyspace, source, stmt); err != nil {
		return refuse(err)
	}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Created, Target: schema.TargetTable,
		Keyspace: keyspace, Name: name}}
	// If the target exists, Apply refuses or ignores the statement, and the indexes do not matter.
	if stmt.Indexes && d.Schema.Table(keyspace, name) == nil {
		err = d.likeIndexes(&def, c, source)
	}
	if err != nil {
		return refuse(err)
	}
	return def
}

// likeIndexes adds the indexes of a table to a new one. An index with a default name gets the default name for the new
// table. Another index keeps its name if that is free in the keyspace, and otherwise gets a number. Each warning
// appears once.
//
//	index of s       index of t
//	s_c_idx          t_c_idx, or t_c_idx_1 if that is taken
//	name             name, or name_1 if that is taken
func (d *Definer) likeIndexes(def *Definition, c *schema.CreateTable, source *schema.Table) error {
	// taken contains the names of all indexes in the target keyspace, including those chosen below.
	taken := d.Schema.Keyspace(c.Keyspace).IndexesCalled("")
	for _, ix := range source.Indexes() {
		// The column exists, because an indexed column cannot be dropped.
		col := source.ColumnByID(ix.Column)
		// An index whose class is now disabled is not copied: the statement is refused.
		if err := d.Indexes.allow(ix.Class); err != nil {
			return err
		}
		like := schema.CreateIndex{Keyspace: c.Keyspace, Table: c.Table, Class: ix.Class, Column: col.Name,
			Target: ix.Target, Options: ix.Options}
		// Apply chooses a default name if Name is empty.
		if !schema.IsDefaultIndexName(source, col, ix.Name) {
			like.Name = ix.Name
			for n := 1; taken[like.Name]; n++ {
				like.Name = ix.Name + "_" + strconv.Itoa(n)
			}
			taken[like.Name] = true
		}
		c.Indexes = append(c.Indexes, like)
		if ix.Class == schema.SASI && !slices.Contains(def.Warnings, sasiWarning) {
			def.Warnings = append(def.Warnings, sasiWarning)
		}
		if ix.Class == schema.SAI && col.Type.Kind() == types.Vector &&
			!slices.Contains(def.Warnings, vectorIndexWarning) {
			def.Warnings = append(def.Warnings, vectorIndexWarning)
		}
	}
	// The indexes are created together, so the limit is checked once, for the last one's name.
	n := len(c.Indexes)
	if n == 0 {
		return nil
	}
	return d.Indexes.guard(def, c.Table, c.Indexes[n-1].Name, n)
}

// likeAttributes returns the attributes of a column that are copied, or nil if there are none. It copies a before
// changing it, because readers of the schema share it.
func likeAttributes(a *schema.Attributes, stmt *cql.CreateTableLike) *schema.Attributes {
	if a == nil {
		return nil
	}
	out := *a
	if !stmt.Comments {
		out.Comment = ""
	}
	if !stmt.Labels {
		out.Label = ""
	}
	// A column without attributes is stored without them.
	if out == (schema.Attributes{}) {
		return nil
	}
	return &out
}

// likeColumns returns the columns of source as specifications for the new table. They have no ids; Apply assigns them.
// Dropped columns are not copied.
func (d *Definer) likeColumns(keyspace string, source *schema.Table, stmt *cql.CreateTableLike) ([]schema.ColumnSpec,
	error) {
	var specs []schema.ColumnSpec
	var missing []string
	for _, col := range source.StoredColumns() {
		spec := schema.ColumnSpec{Name: col.Name, Kind: col.Kind, Desc: col.Desc, Type: col.Type, Mask: col.Mask}
		spec.Attributes = likeAttributes(col.Attributes, stmt)
		// A mask must be in the table's keyspace: DROP FUNCTION and DROP KEYSPACE search for its uses only there.
		if m := col.Mask; m != nil && m.Keyspace != "" && m.Keyspace != keyspace {
			return nil, invalid.Errorf("Masking function %s.%s of column %s doesn't belong to the same keyspace as "+
				"the table %s.%s", m.Keyspace, m.Function, col.Name, keyspace, stmt.Table.Name)
		}
		// Readers of the new table call the masking function, so the creator needs the permission to execute it.
		if fn := mask.UserFunction(d.compiler(source.Keyspace), col); fn != nil && d.Execute != nil {
			if err := d.Execute(fn); err != nil {
				return nil, err
			}
		}
		// A type without user-defined parts is the same in every keyspace.
		if keyspace != source.Keyspace && usesUDT(col.Type) {
			all, err := d.missingTypes(keyspace, source.Keyspace, col.Type)
			if err != nil {
				return nil, err
			}
			// The type can be resolved in the new keyspace only if no type is missing there.
			if missing = append(missing, all...); len(missing) == 0 {
				if spec.Type, err = d.sameTypeIn(keyspace, col.Type); err != nil {
					return nil, err
				}
			}
		}
		// StoredColumns lists key columns first, as CreateTable requires.
		specs = append(specs, spec)
	}
	if len(missing) > 0 {
		// Cassandra's message lists each missing type once, sorted.
		slices.Sort(missing)
		return nil, invalid.Errorf("UDTs %s do not exist in target keyspace '%s'.",
			strings.Join(slices.Compact(missing), ", "), keyspace)
	}
	return specs, nil
}

// usesUDT reports whether t is a user-defined type or contains one.
func usesUDT(t *types.Type) bool {
	return t.Kind() == types.UDT || slices.ContainsFunc(t.Elems(), usesUDT)
}

// missingTypes returns the names of user-defined types in t that keyspace does not have. A type with the same name but
// other fields is an error. Fields are compared by the CQL text of their types, which does not contain the keyspace;
// nested types are checked recursively.
//
//	t uses u and w; the target has u with the same fields   w is missing
//	the target has u with other fields                      an error
func (d *Definer) missingTypes(keyspace, from string, t *types.Type) (missing []string, err error) {
	if t.Kind() == types.UDT {
		other := d.Schema.Keyspace(keyspace).Type(t.UDTName())
		if other == nil {
			// The parts of a missing type are not searched: the client has to create it first.
			return []string{t.UDTName()}, nil
		}
		if !slices.Equal(t.FieldNames(), other.FieldNames()) ||
			!slices.EqualFunc(t.Elems(), other.Elems(),
				func(a, b *types.Type) bool { return a.String() == b.String() }) {
			return nil, invalid.Errorf("Target keyspace '%s' has same UDT name '%s' as source keyspace '%s' but with "+
				"different structure.",
				keyspace, t.UDTName(), from)
		}
	}
	// The fields of an existing type may be user-defined types as well.
	for _, e := range t.Elems() {
		all, err := d.missingTypes(keyspace, from, e)
		if err != nil {
			return nil, err
		}
		missing = append(missing, all...)
	}
	return missing, nil
}

// sameTypeIn returns the type with the text of t in another keyspace. Only the parser of statements reads the text of
// types, so the text is wrapped in a statement.
func (d *Definer) sameTypeIn(keyspace string, t *types.Type) (*types.Type, error) {
	stmt, err := cql.Parse("ALTER TABLE t ADD c " + t.String())
	if err != nil {
		return nil, err
	}
	// The statement has this form by construction.
	add := stmt.(*cql.AlterTable).Action.(*cql.AddColumns)
	return d.typeOf(keyspace, &add.Columns[0].Type)
}
