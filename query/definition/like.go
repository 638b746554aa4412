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

// createTableLike defines CREATE TABLE t LIKE source: the columns with their masks, constraints and defaults, and the
// options, which WITH changes. Comments on columns are copied WITH COMMENTS only, security labels WITH SECURITY LABELS
// only, indexes WITH INDEXES only. Rows are not copied.
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
	// The errors about the source come before the errors about the target.
	// nil also if the keyspace is missing, which has its own message.
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
	// A compact table has a compact copy.
	c := &schema.CreateTable{Keyspace: keyspace, Table: name, IfNotExists: stmt.IfNotExists, ID: d.NewID(),
		Compact: source.Compact}
	// The message is ALTER's, as in Cassandra.
	if (properties{stmt.Properties}).has("id") {
		return refuse(invalid.Configf("Cannot alter table id."))
	}
	// The options of the source take the place of the defaults.
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
	// If the table exists, Apply refuses or ignores the statement, and indexes do not matter.
	if stmt.Indexes && d.Schema.Table(keyspace, name) == nil {
		err = d.likeIndexes(&def, c, source)
	}
	if err != nil {
		return refuse(err)
	}
	return def
}

// likeIndexes adds the indexes of a table to a new one. An index whose name CREATE INDEX chose gets the name that it
// chooses for the new table; another keeps its name if the keyspace has no index of that name, and otherwise gets a
// number. Warnings appear once for each class.
//
//	index of s       index of t
//	s_c_idx          t_c_idx, or t_c_idx_1 if that is taken
//	name             name, or name_1 if that is taken
func (d *Definer) likeIndexes(def *Definition, c *schema.CreateTable, source *schema.Table) error {
	// The names of all indexes in the target keyspace, with the names given below.
	taken := d.Schema.Keyspace(c.Keyspace).IndexesCalled("")
	for _, ix := range source.Indexes() {
		// The column exists: an indexed column cannot be dropped.
		col := source.ColumnByID(ix.Column)
		// A class that is disabled now cannot be copied either.
		if err := d.Indexes.allow(ix.Class); err != nil {
			return err
		}
		like := schema.CreateIndex{Keyspace: c.Keyspace, Table: c.Table, Class: ix.Class, Column: col.Name,
			Target: ix.Target, Options: ix.Options}
		// An empty name means that Apply chooses it.
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
	// All are created together, so the number is checked once, with the name of the last one.
	n := len(c.Indexes)
	if n == 0 {
		return nil
	}
	return d.Indexes.guard(def, c.Table, c.Indexes[n-1].Name, n)
}

// likeAttributes returns the attributes of a column that are copied. nil means none. The source's attributes are shared
// by readers of the schema, so that they are copied before they change.
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

// likeColumns returns the columns of a table as the columns of a new one in a keyspace. The new columns have no ids
// yet: Apply assigns them. Columns that were dropped are not copied.
func (d *Definer) likeColumns(keyspace string, source *schema.Table, stmt *cql.CreateTableLike) ([]schema.ColumnSpec,
	error) {
	var specs []schema.ColumnSpec
	var missing []string
	for _, col := range source.StoredColumns() {
		spec := schema.ColumnSpec{Name: col.Name, Kind: col.Kind, Desc: col.Desc, Type: col.Type, Mask: col.Mask}
		spec.Attributes = likeAttributes(col.Attributes, stmt)
		// DROP FUNCTION and DROP KEYSPACE look for masks in the function's keyspace only.
		if m := col.Mask; m != nil && m.Keyspace != "" && m.Keyspace != keyspace {
			return nil, invalid.Errorf("Masking function %s.%s of column %s doesn't belong to the same keyspace as "+
				"the table %s.%s", m.Keyspace, m.Function, col.Name, keyspace, stmt.Table.Name)
		}
		// The mask calls the function for readers of the new table, so that the creator must be allowed to execute it.
		if fn := mask.UserFunction(d.compiler(source.Keyspace), col); fn != nil && d.Execute != nil {
			if err := d.Execute(fn); err != nil {
				return nil, err
			}
		}
		// Types without user-defined ones belong to no keyspace.
		if keyspace != source.Keyspace && usesUDT(col.Type) {
			all, err := d.missingTypes(keyspace, source.Keyspace, col.Type)
			if err != nil {
				return nil, err
			}
			// While no type is missing, the column's type can be resolved in the new keyspace.
			if missing = append(missing, all...); len(missing) == 0 {
				if spec.Type, err = d.sameTypeIn(keyspace, col.Type); err != nil {
					return nil, err
				}
			}
		}
		// In the order of stored columns: key columns come first, as CreateTable requires.
		specs = append(specs, spec)
	}
	if len(missing) > 0 {
		// Cassandra lists each once, in order.
		slices.Sort(missing)
		return nil, invalid.Errorf("UDTs %s do not exist in target keyspace '%s'.",
			strings.Join(slices.Compact(missing), ", "), keyspace)
	}
	return specs, nil
}

// usesUDT reports whether a user-defined type is part of t, or is t.
func usesUDT(t *types.Type) bool {
	return t.Kind() == types.UDT || slices.ContainsFunc(t.Elems(), usesUDT)
}

// missingTypes returns the user-defined types within t that a keyspace does not have. One with other fields is an
// error. Types are compared by text, which does not contain the keyspace; nested types are compared for themselves.
//
//	t uses u and w; the target has u with the same fields   w is missing
//	the target has u with other fields                      an error
func (d *Definer) missingTypes(keyspace, from string, t *types.Type) (missing []string, err error) {
	if t.Kind() == types.UDT {
		other := d.Schema.Keyspace(keyspace).Type(t.UDTName())
		if other == nil {
			// Its own parts are not searched: the client must create it first.
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
	// Also the parts of a type that exists: its fields may be user-defined types themselves.
	for _, e := range t.Elems() {
		all, err := d.missingTypes(keyspace, from, e)
		if err != nil {
			return nil, err
		}
		missing = append(missing, all...)
	}
	return missing, nil
}

// sameTypeIn returns the type with the text of t in another keyspace. The parser is the only code that reads a type's
// text, so that it reads a statement with it.
func (d *Definer) sameTypeIn(keyspace string, t *types.Type) (*types.Type, error) {
	stmt, err := cql.Parse("ALTER TABLE t ADD c " + t.String())
	if err != nil {
		return nil, err
	}
	// The statement has this form by construction.
	add := stmt.(*cql.AlterTable).Action.(*cql.AddColumns)
	return d.typeOf(keyspace, &add.Columns[0].Type)
}
