package schema

import (
	"fmt"
	"slices"
	"strings"

	"cqld/schema/refused"
	"cqld/types"
)

// View is what makes a Table a materialized view of another table of its keyspace, the base table. It is immutable.
//
// A view stores no rows: they are computed from the rows of the base table. Its columns have the ids of the base
// table's columns. Its StorageID identifies the entries of the index that finds its rows.
type View struct {
	Base string // name of the base table
	// After a drop, another table may use the name Base, but not the id.
	BaseID UUID
	// All reports whether the view was defined with SELECT *: it has all non-static columns of the base table.
	All bool
	// Where contains the conditions of the definition, in its order.
	Where []ViewCondition
}

// ViewOperator is the operator of a ViewCondition. The values are stored.
type ViewOperator uint8

// Operators of conditions.
const (
	// ViewNotNull is IS NOT NULL, on any column. It has no values.
	ViewNotNull ViewOperator = iota + 1
	ViewEqual
	ViewLess
	ViewLessOrEqual
	ViewGreater
	ViewGreaterOrEqual
	// ViewIn has several tuples of values; the columns must equal one of them.
	ViewIn
	ViewContains
	ViewContainsKey
)

// ViewCondition is one condition on columns of the base table. Except for ViewNotNull, the columns are key columns of
// the base table. Several columns are compared as a tuple.
type ViewCondition struct {
	Columns  []ColumnID
	Tuple    bool `json:",omitempty"` // written with parentheses, also with one column
	Operator ViewOperator
	// Values contains one value in wire form for each column; with ViewIn, one for each column of each tuple. nil is
	// null, which satisfies no condition.
	Values [][]byte `json:",omitempty"`
	Text   string   // of the operator and of what follows it
}

// IsView reports whether t is a materialized view.
func (t *Table) IsView() bool { return t.View != nil }

// WhereText returns the conditions as system_schema.views shows them, with the current column names. base is the base
// table. For example: a IS NOT NULL AND (b, c) > (1, 2).
func (t *Table) WhereText(base *Table) string {
	var parts []string
	for i := range t.View.Where {
		c := &t.View.Where[i]
		var names []string
		// The columns exist, because a base table with views cannot drop columns (checkAlterBase).
		for _, id := range c.Columns {
			if column := base.ColumnByID(id); column != nil {
				names = append(names, types.QuoteName(column.Name))
			}
		}
		text := strings.Join(names, ", ")
		if c.Tuple {
			text = "(" + text + ")"
		}
		parts = append(parts, text+" "+c.Text)
	}
	return strings.Join(parts, " AND ")
}

// ViewColumn returns the column of the view's key that is not a key column of the base table, or nil. There is at most
// one (checkView). It is returned as defined in the base table.
func (t *Table) ViewColumn(base *Table) *Column {
	// Any other column of the view's key is a key column of the base table.
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering} {
		for _, c := range list {
			if from := base.ColumnByID(c.ID); from != nil && from.Kind == Regular {
				return from
			}
		}
	}
	return nil
}

// Views returns the materialized views of t, sorted by name. Callers must not modify the slice.
func (t *Table) Views() []*Table { return t.views }

// BaseOf returns the base table of view, or nil if view is not a view or its base table does not exist. view may be
// from another version of the schema.
func (s *Schema) BaseOf(view *Table) *Table {
	if view.View == nil {
		return nil
	}
	// Rows of a dropped keyspace may still be written, for example by hints.
	k := s.StoredKeyspace(view.Keyspace)
	if k == nil {
		return nil
	}
	base := k.Table(view.View.Base)
	if base == nil || base.ID != view.View.BaseID {
		return nil
	}
	return base
}

// CreateView creates a materialized view. Columns are ids of columns of the base table BaseID. Package query created
// the change from one schema; Apply validates it against another.
type CreateView struct {
	Keyspace    string
	View        string
	IfNotExists bool
	ID          UUID
	// Base finds the table and appears in messages; BaseID decides whether it is the same table.
	Base    string
	BaseID  UUID
	All     bool
	Columns []ColumnID // the selected ones; nil with All
	// Partition and Clustering are the key, in key order.
	Partition  []ColumnID
	Clustering []ViewClustering
	Where      []ViewCondition
	Options    Options
}

// ViewClustering is a clustering column of a new view.
type ViewClustering struct {
	Column ColumnID
	Desc   bool `json:",omitempty"`
}

// AlterView sets options of a materialized view. Nothing else of a view can change.
type AlterView struct {
	Keyspace string
	View     string
	IfExists bool
	Set      []string // names of the options to take from Options
	Options  Options
}

// DropView drops a materialized view.
type DropView struct {
	Keyspace string
	View     string
	IfExists bool
}

// The methods change mark the implementations of Change.
func (*CreateView) change() {}
func (*AlterView) change()  {}
func (*DropView) change()   {}

// applyCreateView adds a view. Views share the namespace of tables.
func applyCreateView(s *Schema, c *CreateView) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil {
		return nil, &refused.NotFound{Keyspace: c.Keyspace}
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	base := k.tables[c.Base]
	// A view cannot be based on a view.
	if base == nil || base.View != nil {
		return nil, invalidf("Base table '%s' doesn't exist", c.Base)
	}
	// Views and tables share one map of names.
	switch old := k.tables[c.View]; {
	case old == nil:
	case old.View == nil:
		return nil, invalidf("Cannot create materialized view '%s' - a table with the same name already exists", c.View)
	case c.IfNotExists:
		return s, nil
	default:
		return nil, &refused.Exists{Keyspace: c.Keyspace, Table: c.View}
	}
	if base.ID != c.BaseID {
		return nil, invalidf("Base table '%s' was dropped and created again meanwhile", c.Base)
	}
	if other := s.tableByID(c.ID); other != nil {
		return nil, invalidf("Table id %s is that of %s.%s already", c.ID, other.Keyspace, other.Name)
	}
	t, err := base.newView(c, s.nextStorage)
	if err != nil {
		return nil, err
	}
	return s.withNext(k.withTable(t), s.nextStorage+1), nil
}

// newView returns the view of c on t, with the storage id id. A column that c lists twice, or lists although it is part
// of the key, is added once.
func (t *Table) newView(c *CreateView, id StorageID) (*Table, error) {
	if hasCounters(t) {
		return nil, invalidf("Materialized views are not supported on counter tables")
	}
	// Cassandra's rule: there, undelivered view updates expire after gc_grace_seconds.
	if t.Options.GCGraceSeconds == 0 {
		return nil, invalidf("Cannot create materialized view '%s' for base table '%s' with gc_grace_seconds of 0, "+
			"since this value is "+
			"used to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to "+
			"expire before "+
			"being replayed.", c.View, t.Name)
	}
	v := &Table{ID: c.ID, StorageID: id, Keyspace: t.Keyspace, Name: c.View, Options: c.Options,
		Replication: t.Replication,
		View:        &View{Base: t.Name, BaseID: t.ID, All: c.All, Where: c.Where}}
	// The first use of a column determines its kind: the key comes first.
	used := map[ColumnID]bool{}
	add := func(id ColumnID, kind ColumnKind, desc bool) {
		if used[id] || t.ColumnByID(id) == nil {
			return // checkView refuses it
		}
		used[id] = true
		column := &Column{ID: id, Kind: kind, Desc: desc}
		switch kind {
		case PartitionKey:
			v.PartitionKey = append(v.PartitionKey, column)
		case Clustering:
			v.Clustering = append(v.Clustering, column)
		default:
			v.Regulars = append(v.Regulars, column)
		}
	}
	for _, id := range c.Partition {
		add(id, PartitionKey, false)
	}
	for _, key := range c.Clustering {
		add(key.Column, Clustering, key.Desc)
	}
	// Selected key columns have been added already.
	for _, id := range c.Columns {
		add(id, Regular, false)
	}
	// Until here, the columns have only ids, kinds and orders.
	v.follow(t)
	if err := v.checkView(t); err != nil {
		return nil, err
	}
	return v, v.validate()
}

// follow updates the columns of the view t to the current definitions of the base table's columns, and seals it. With
// All, it adds missing columns. It is called after every change of the base table, before the view is shared.
//
//	base   k, c, v, w       view   v, k, c            of SELECT v, k, c
//	base   k, c, v, w, x    view   v, k, c            the same
//	base   k, c, v, w, x    view   v, k, c, w, x      of SELECT *
func (t *Table) follow(base *Table) {
	t.NextColumn = base.NextColumn
	t.View.Base, t.View.BaseID = base.Name, base.ID
	has := map[ColumnID]bool{}
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering, t.Regulars} {
		for i, old := range list {
			from := base.ColumnByID(old.ID)
			// Kind and order are the view's; everything else is the base table's.
			if from == nil {
				continue // checkView refuses it
			}
			has[old.ID] = true
			c := *from
			c.Kind, c.Desc, c.Position = old.Kind, old.Desc, -1
			if old.Kind != Regular {
				c.Position = i
			}
			list[i] = &c
		}
	}
	// SELECT * adds new columns of the base table to the view.
	for _, c := range base.Regulars {
		if t.View.All && !has[c.ID] {
			t.Regulars = append(t.Regulars, c)
		}
	}
	t.Seal()
}

// checkView checks the rules between a view and its base table. Package query checked them when it created the change,
// with messages that name the columns; this check protects the schema against other sources and concurrent changes.
func (t *Table) checkView(base *Table) error {
	others := 0
	for _, c := range t.all {
		from := base.ColumnByID(c.ID)
		switch {
		case from == nil:
			return invalidf("Materialized view '%s' has a column that table '%s' does not have", t.Name, base.Name)
		case from.Kind == Static:
			return invalidf("Cannot include static column '%s' in materialized view '%s'", from.Name, t.Name)
		case c.Kind != Regular && from.Kind == Regular:
			others++
		}
	}
	if others > 1 {
		return invalidf("Cannot include more than one non-primary key column in materialized view primary key")
	}
	for _, key := range slices.Concat(base.PartitionKey, base.Clustering) {
		if c := t.ColumnByID(key.ID); c == nil || c.Kind == Regular {
			return invalidf("Cannot create materialized view '%s' without primary key columns %s from base table '%s'",
				t.Name, key.Name,
				base.Name)
		}
	}
	// Conditions refer to columns of the base table.
	for i := range t.View.Where {
		if err := t.View.Where[i].check(base); err != nil {
			return err
		}
	}
	if t.Options.DefaultTTL > 0 {
		return invalidf("Cannot set default_time_to_live for a materialized view. Data in a materialized view " +
			"always expire at the " +
			"same time than the corresponding data in the parent table.")
	}
	return nil
}

// check checks the form of a condition. Except for IS NOT NULL, its columns must be key columns of the base table.
func (c *ViewCondition) check(base *Table) error {
	// The values form tuples with one value for each column; only IN has several tuples.
	if len(c.Columns) == 0 || c.Operator < ViewNotNull || c.Operator > ViewContainsKey || c.Operator != ViewNotNull &&
		(len(c.Values)%len(c.Columns) != 0 || c.Operator != ViewIn && len(c.Values) != len(c.Columns)) {
		return invalidf("A condition of the materialized view is malformed")
	}
	for _, id := range c.Columns {
		column := base.ColumnByID(id)
		if column == nil || c.Operator != ViewNotNull && column.Kind != PartitionKey && column.Kind != Clustering {
			return invalidf("A condition of the materialized view is on a column that is not part of the primary "+
				"key of '%s'", base.Name)
		}
	}
	return nil
}

// applyAlterView changes options of a view.
func applyAlterView(s *Schema, c *AlterView) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil || k.tables[c.View] == nil || k.tables[c.View].View == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, &refused.NotFound{Keyspace: c.Keyspace, Name: c.View, View: true}
	}
	old := k.tables[c.View]
	// The definition (View) does not contain options, so it stays shared.
	t := old.copyForChange()
	t.Options = t.Options.with(&c.Options, c.Set)
	if err := t.Options.checkView(); err != nil {
		return nil, err
	}
	t.Seal()
	if err := t.validate(); err != nil {
		return nil, err
	}
	if t.sameDefinition(old) {
		return s, nil
	}
	return s.with(k.withTable(t)), nil
}

// checkView checks the options of an altered view, in Cassandra's words for ALTER.
func (o *Options) checkView() error {
	// All options of the view are checked, even those that the statement does not set.
	if o.GCGraceSeconds == 0 {
		return invalidf("Cannot alter gc_grace_seconds of a materialized view to 0, %s", graceReason)
	}
	if o.DefaultTTL > 0 {
		return invalidf("Forbidden default_time_to_live detected for a materialized view. Data in a materialized " +
			"view always expire at " +
			"the same time than the corresponding data in the parent table. default_time_to_live must be set to " +
			"zero, see " +
			"CASSANDRA-12868 for more information")
	}
	return nil
}

// graceReason ends two of Cassandra's messages.
const graceReason = "since this value is used to TTL undelivered updates. Setting gc_grace_seconds too low might " +
	"cause undelivered " +
	"updates to expire before being replayed."

// applyDropView drops a view, which has no rows of its own.
func applyDropView(s *Schema, c *DropView) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil || k.tables[c.View] == nil || k.tables[c.View].View == nil {
		if c.IfExists {
			return s, nil
		}
		return nil, &refused.NotFound{Keyspace: c.Keyspace, Name: c.View, View: true}
	}
	return s.with(k.withoutTable(c.View)), nil
}

// withBase returns k with a changed table and its views adapted. The result is not linked: link finds the views of the
// table again.
func (k *Keyspace) withBase(t *Table) *Keyspace {
	c := k.withTable(t)
	// The views belong to the keyspace of the table.
	for _, v := range k.tables[t.Name].views {
		// Other schemas share views and their definitions, so both are copied.
		view, definition := v.copyForChange(), *v.View
		view.View = &definition
		view.follow(t)
		c.tables[view.Name], c.ordered = view, false
	}
	return c
}

// checkAlterBase refuses changes that a table with views does not permit. old is the table before the change c.
func checkAlterBase(old, t *Table, c *AlterTable) error {
	if len(old.views) == 0 {
		return nil
	}
	// A missing column has its own error, or is ignored because of IF EXISTS.
	for _, name := range c.Drop {
		if old.Column(name) != nil {
			return invalidf("Cannot drop column %s on base table %s with materialized views", name, old.Name)
		}
	}
	if t.Options.GCGraceSeconds == 0 {
		return invalidf("Cannot alter gc_grace_seconds of the base table of a materialized view to 0, %s", graceReason)
	}
	return nil
}

// checkViews checks in a decoded keyspace that every view has an existing base table and its columns. Code that
// computes views relies on this.
func (k *Keyspace) checkViews() error {
	for _, t := range k.tables {
		if t.View == nil {
			continue
		}
		// Name and id must both match, because BaseOf and withBase use both.
		base := k.tables[t.View.Base]
		if base == nil || base.View != nil || base.ID != t.View.BaseID {
			return fmt.Errorf("%w: the base table of view %q is missing", ErrFormat, t.Name)
		}
		if err := t.checkView(base); err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		for _, c := range t.all {
			if from := base.ColumnByID(c.ID); from.Name != c.Name || !from.Type.Equal(c.Type) {
				return fmt.Errorf("%w: column %q of view %q is not that of its base table", ErrFormat, c.Name, t.Name)
			}
		}
	}
	return nil
}

// sameView reports whether both tables are views with the same definition, or neither is a view. Columns and options
// are compared as for tables. The text of a condition contains its values.
func (t *Table) sameView(o *Table) bool {
	if t.View == nil || o.View == nil {
		return t.View == o.View
	}
	v, w := t.View, o.View
	return v.Base == w.Base && v.BaseID == w.BaseID && v.All == w.All &&
		slices.EqualFunc(v.Where, w.Where, func(a, b ViewCondition) bool {
			return a.Operator == b.Operator && a.Text == b.Text && slices.Equal(a.Columns, b.Columns)
		})
}
