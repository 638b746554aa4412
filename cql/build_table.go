package cql

import (
	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// createTable builds CREATE TABLE, or CREATE TABLE … LIKE.
func (b schemaBuilder) createTable(ctx *grammar.CreateTableContext) Statement {
	if ctx.K_LIKE() != nil {
		return b.createTableLike(ctx)
	}
	t := &CreateTable{Table: tableName(ctx.TableName(0)), IfNotExists: ctx.IfNotExists() != nil}
	for _, e := range ctx.AllTableElement() {
		if key := e.PrimaryKey(); key != nil {
			// As in Cassandra, the grammar accepts several primary keys; package query rejects them.
			t.PrimaryKeys = append(t.PrimaryKeys, primaryKey(key))
			continue
		}
		t.Columns = append(t.Columns, ColumnDefinition{
			Name:        name(e.Ident()),
			Type:        b.dataType(e.DataType()),
			Static:      e.K_STATIC() != nil,
			NotNull:     e.K_NOT() != nil,
			Mask:        b.mask(e.ColumnMask()),
			Constraints: b.constraints(e.ColumnConstraints()),
			Default:     b.columnDefault(e.ColumnDefault()),
			PrimaryKey:  e.K_PRIMARY() != nil,
		})
	}
	t.Options = b.tableOptions(ctx.AllTableOption())
	return t
}

// primaryKey builds PRIMARY KEY (…). The names directly in the rule are the clustering.
func primaryKey(ctx grammar.IPrimaryKeyContext) PrimaryKey {
	key := PrimaryKey{Partition: names(ctx.PartitionKey().AllIdent())}
	if clustering := ctx.AllIdent(); len(clustering) > 0 {
		key.Clustering = names(clustering)
	}
	return key
}

// mask builds MASKED WITH …; nil if there is none.
func (b schemaBuilder) mask(ctx grammar.IColumnMaskContext) *Mask {
	if ctx == nil {
		return nil
	}
	if ctx.K_DEFAULT() != nil {
		return &Mask{Default: true}
	}
	// The arguments follow the column's value, which is not written.
	return &Mask{Function: functionName(ctx.FunctionName()), Args: b.terms(ctx.Terms())}
}

// tableOptions builds the options of WITH. CLUSTERING ORDER BY may occur several times, and adds up.
func (b schemaBuilder) tableOptions(all []grammar.ITableOptionContext) TableOptions {
	var options TableOptions
	for _, o := range all {
		// Options may come in any order, joined by AND.
		switch {
		case o.Property() != nil:
			options.Properties = append(options.Properties, b.property(o.Property()))
		case o.K_COMPACT() != nil:
			options.CompactStorage = true
		default:
			for _, c := range o.AllClusteringOrder() {
				order := ClusteringOrder{Column: name(c.Ident()), Descending: c.K_DESC() != nil}
				options.ClusteringOrder = append(options.ClusteringOrder, order)
			}
		}
	}
	b.checkProperties(options.Properties)
	return options
}

// properties builds the properties of WITH; nil if there are none.
func (b schemaBuilder) properties(ctx grammar.IPropertiesContext) Properties {
	if ctx == nil {
		return nil
	}
	var out Properties
	for _, p := range ctx.AllProperty() {
		out = append(out, b.property(p))
	}
	b.checkProperties(out)
	return out
}

// property builds one name = value.
func (b schemaBuilder) property(ctx grammar.IPropertyContext) Property {
	return Property{Name: name(ctx.Ident()), Value: b.propertyValue(ctx.PropertyValue())}
}

// checkProperties refuses a property that is defined twice.
func (b schemaBuilder) checkProperties(all Properties) {
	seen := make(map[string]bool, len(all))
	for _, p := range all {
		if seen[p.Name] {
			b.fail("Multiple definitions for property '" + shown(p.Name) + "'")
		}
		// Names are folded, so two spellings of a name are one property.
		seen[p.Name] = true
	}
}

// propertyValue builds the value of a property. A keyword is a string in the spelling of the text.
func (b schemaBuilder) propertyValue(ctx grammar.IPropertyValueContext) Term {
	switch {
	// A bare word must be a keyword: the rule has no names.
	case ctx.Keyword() != nil:
		return &Literal{Kind: LiteralString, Text: ctx.Keyword().GetStart().GetText()}
	case ctx.Constant() != nil:
		return literal(ctx.GetStart())
	}
	return b.propertyMap(ctx.AllMapEntry())
}

// propertyMap builds a map of literals without duplicate keys. It returns a map also after an error.
func (b schemaBuilder) propertyMap(entries []grammar.IMapEntryContext) *MapLiteral {
	m := &MapLiteral{Entries: b.mapEntries(entries)}
	seen := make(map[string]bool, len(m.Entries))
	for _, e := range m.Entries {
		// As in Cassandra, the grammar accepts any term; reject all but constants.
		key, ok := propertyLiteral(e.Key)
		if !ok {
			b.fail("Invalid property name: " + propertyTerm(e.Key) + unbindableProperty(e.Key))
			// Further messages would need the key.
			continue
		}
		if _, ok := propertyLiteral(e.Value); !ok {
			b.fail("Invalid property value: " + propertyTerm(e.Value) + " for property: " + propertyTerm(e.Key) +
				unbindableProperty(e.Value))
		}
		if seen[key.Text] {
			b.fail("Multiple definition for property " + shown(key.Text))
		}
		seen[key.Text] = true
	}
	return m
}

// propertyLiteral returns the constant of a term. It returns false for null.
func propertyLiteral(t Term) (*Literal, bool) {
	l, ok := t.(*Literal)
	return l, ok && l.Kind != LiteralNull
}

// propertyTerm returns a term as messages show it.
func propertyTerm(t Term) string { return shown(string(appendTerm(nil, t))) }

// unbindableProperty returns the reason in a message if a term is a marker.
func unbindableProperty(t Term) string {
	if _, ok := t.(*BindMarker); ok {
		return " (bind variables are not supported in DDL queries)"
	}
	return ""
}

// alterTable builds ALTER TABLE. It tests K_COMPACT before K_DROP, because DROP COMPACT STORAGE contains both. IF
// EXISTS may stand before the table, within the action, or in both places.
func (b schemaBuilder) alterTable(ctx *grammar.AlterTableContext) Statement {
	a := &AlterTable{Table: tableName(ctx.TableName())}
	all := ctx.AllIfExists() // before the table, and within the action
	a.IfExists = len(all) > 0 && before(all[0], ctx.TableName())
	inner := len(all) > 1 || len(all) == 1 && !a.IfExists
	switch {
	case ctx.K_ALTER() != nil:
		a.Action = b.alterColumn(ctx, inner)
	case ctx.K_ADD() != nil:
		a.Action = &AddColumns{IfNotExists: ctx.IfNotExists() != nil, Columns: b.addedColumns(ctx.AllAddedColumn())}
	case ctx.K_COMPACT() != nil:
		a.Action = &DropCompactStorage{}
	case ctx.K_DROP() != nil:
		drop := &DropColumns{IfExists: inner, Columns: names(ctx.AllIdent())}
		// USING TIMESTAMP of DROP is a literal, because definitions have no markers.
		if timestamp := ctx.INTEGER(); timestamp != nil {
			drop.Timestamp = literal(timestamp.GetSymbol())
		}
		a.Action = drop
	case ctx.K_UNDROP() != nil:
		a.Action = &UndropColumns{Columns: names(ctx.AllIdent())}
	case ctx.K_PURGE() != nil:
		a.Action = &PurgeColumns{Columns: names(ctx.AllIdent())}
	case ctx.K_RENAME() != nil:
		a.Action = &RenameColumns{IfExists: inner, Renames: renames(ctx.AllRename())}
	default:
		a.Action = &SetTableOptions{Options: TableOptions{Properties: b.properties(ctx.Properties())}}
	}
	return a
}

// before reports whether a stands before c in the text.
func before(a, c antlr.ParserRuleContext) bool {
	return a.GetStart().GetTokenIndex() < c.GetStart().GetTokenIndex()
}

// alterColumn builds ALTER TABLE … ALTER c. DROP CHECK, DROP DEFAULT and DROP MASKED have no value, which their actions
// represent by nil.
func (b schemaBuilder) alterColumn(ctx *grammar.AlterTableContext, ifExists bool) AlterTableAction {
	column := name(ctx.ColumnName())
	if ctx.K_TYPE() != nil {
		return &AlterColumnType{IfExists: ifExists, Column: column, Type: b.dataType(ctx.DataType())}
	}
	// DROP CHECK and DROP DEFAULT have the word and no rule; the other forms have the rule.
	switch {
	case ctx.ColumnConstraints() != nil, ctx.K_CHECK() != nil:
		return &AlterColumnConstraints{IfExists: ifExists, Column: column,
			Constraints: b.constraints(ctx.ColumnConstraints())}
	case ctx.ColumnDefault() != nil, ctx.K_DEFAULT() != nil:
		return &AlterColumnDefault{IfExists: ifExists, Column: column, Default: b.columnDefault(ctx.ColumnDefault())}
	}
	return &AlterColumnMask{IfExists: ifExists, Column: column, Mask: b.mask(ctx.ColumnMask())}
}

// addedColumns builds the columns of ADD. They cannot be part of the primary key.
func (b schemaBuilder) addedColumns(all []grammar.IAddedColumnContext) []ColumnDefinition {
	var out []ColumnDefinition
	for _, c := range all {
		// PrimaryKey and NotNull stay false: the rule has no words for them.
		out = append(out, ColumnDefinition{
			Name:        name(c.Ident()),
			Type:        b.dataType(c.DataType()),
			Static:      c.K_STATIC() != nil,
			Mask:        b.mask(c.ColumnMask()),
			Constraints: b.constraints(c.ColumnConstraints()),
			Default:     b.columnDefault(c.ColumnDefault()),
		})
	}
	return out
}

// createMaterializedView builds CREATE MATERIALIZED VIEW.
func (b schemaBuilder) createMaterializedView(ctx *grammar.CreateMaterializedViewContext) Statement {
	view := &CreateMaterializedView{
		View:        tableName(ctx.TableName(0)),
		IfNotExists: ctx.IfNotExists() != nil,
		Columns:     b.selectColumns(ctx.SelectColumns()),
		Table:       tableName(ctx.TableName(1)),
		Where:       dataBuilder(b).where(ctx.WhereClause()),
		PrimaryKey:  primaryKey(ctx.PrimaryKey()),
		Options:     b.tableOptions(ctx.AllTableOption()),
	}
	// CREATE TABLE shares the rule of options, so the grammar accepts COMPACT STORAGE.
	if view.Options.CompactStorage {
		b.fail("COMPACT STORAGE tables are not allowed starting with version 4.0")
	}
	return view
}
