package cql

import (
	"cqld/grammar"
)

// createType builds CREATE TYPE.
func (b schemaBuilder) createType(ctx *grammar.CreateTypeContext) Statement {
	return &CreateType{
		Type:        b.typeName(ctx.TypeName()),
		IfNotExists: ctx.IfNotExists() != nil,
		Fields:      b.fields(ctx.AllFieldDefinition()),
	}
}

// fields builds the fields of a type, or the arguments of a function.
func (b schemaBuilder) fields(all []grammar.IFieldDefinitionContext) []FieldDefinition {
	var out []FieldDefinition
	for _, f := range all {
		out = append(out, b.field(f))
	}
	return out
}

// field builds a name with its type.
func (b schemaBuilder) field(ctx grammar.IFieldDefinitionContext) FieldDefinition {
	return FieldDefinition{Name: name(ctx.Ident()), Type: b.dataType(ctx.DataType())}
}

// alterType builds ALTER TYPE. IF EXISTS may stand before the type, after RENAME, or in both places.
func (b schemaBuilder) alterType(ctx *grammar.AlterTypeContext) Statement {
	a := &AlterType{Type: b.typeName(ctx.TypeName())}
	ifExists := ctx.AllIfExists() // before the name, and after RENAME
	a.IfExists = len(ifExists) > 0 && ifExists[0].GetStart().GetTokenIndex() < ctx.TypeName().GetStart().GetTokenIndex()
	switch {
	case ctx.K_ADD() != nil:
		a.Action = &AddField{IfNotExists: ctx.IfNotExists() != nil, Field: b.field(ctx.FieldDefinition())}
	case ctx.K_RENAME() != nil:
		// A single IF EXISTS belongs to RENAME unless it precedes the name.
		inner := len(ifExists) > 1 || len(ifExists) == 1 && !a.IfExists
		a.Action = &RenameFields{IfExists: inner, Renames: renames(ctx.AllRename())}
	default:
		a.Action = &AlterFieldType{Field: name(ctx.Ident()), Type: b.dataType(ctx.DataType())}
	}
	return a
}

// renames builds RENAME a TO b AND ….
func renames(all []grammar.IRenameContext) []Rename {
	var out []Rename
	for _, r := range all {
		out = append(out, Rename{From: name(r.Ident(0)), To: name(r.Ident(1))})
	}
	return out
}

// createIndex builds CREATE INDEX and CREATE CUSTOM INDEX.
func (b schemaBuilder) createIndex(ctx *grammar.CreateIndexContext) Statement {
	index := &CreateIndex{
		Custom:      ctx.K_CUSTOM() != nil,
		IfNotExists: ctx.IfNotExists() != nil,
		Table:       tableName(ctx.TableName()),
	}
	if ident := ctx.Ident(); ident != nil {
		index.Name = name(ident)
	}
	for _, t := range ctx.AllIndexTarget() {
		index.Targets = append(index.Targets, IndexTarget{Kind: targetKind(t), Column: name(t.ColumnName())})
	}
	// A pointer, because USING '' differs from no USING.
	if using := ctx.STRING_LITERAL(); using != nil {
		class := stringText(using.GetText())
		index.Using = &class
	}
	index.Properties = b.properties(ctx.Properties())
	return index
}

// targetKind returns the kind of a target, which its first token shows.
func targetKind(ctx grammar.IIndexTargetContext) IndexTargetKind {
	switch kindOf(ctx.GetChild(0)) {
	case grammar.CqlLexerK_VALUES:
		return TargetValues
	case grammar.CqlLexerK_KEYS:
		return TargetKeys
	case grammar.CqlLexerK_ENTRIES:
		return TargetEntries
	case grammar.CqlLexerK_FULL:
		return TargetFull
	}
	// The first child is the rule of the column's name.
	return TargetColumn
}

// createFunction builds CREATE FUNCTION. The body is not compiled here.
func (b schemaBuilder) createFunction(ctx *grammar.CreateFunctionContext) Statement {
	return &CreateFunction{
		OrReplace:         ctx.K_OR() != nil,
		IfNotExists:       ctx.IfNotExists() != nil,
		Name:              functionName(ctx.FunctionName()),
		Args:              b.fields(ctx.AllFieldDefinition()),
		CalledOnNullInput: ctx.K_CALLED() != nil,
		Returns:           b.dataType(ctx.DataType()),
		// The language is a name, so java, JAVA and Java are the same.
		Language: identifier(ctx.IDENT().GetSymbol()),
		Body:     stringText(ctx.STRING_LITERAL().GetText()),
	}
}

// createAggregate builds CREATE AGGREGATE.
func (b schemaBuilder) createAggregate(ctx *grammar.CreateAggregateContext) Statement {
	a := &CreateAggregate{
		OrReplace:     ctx.K_OR() != nil,
		IfNotExists:   ctx.IfNotExists() != nil,
		Name:          functionName(ctx.FunctionName()),
		StateFunction: name(ctx.FunctionIdent(0)),
		StateType:     b.dataType(ctx.DataType()),
	}
	// Parentheses are obligatory here, even around no type.
	a.Args, _ = b.argumentTypes(ctx.ArgumentTypes())
	if ctx.K_FINALFUNC() != nil {
		// The second name of the rule, after SFUNC.
		a.FinalFunction = name(ctx.FunctionIdent(1))
	}
	if ctx.K_INITCOND() != nil {
		a.Initial = b.term(ctx.Term())
	}
	return a
}

// describe builds DESCRIBE. Names are not resolved: DESCRIBE of a name without a kind searches several kinds.
func (b schemaBuilder) describe(ctx *grammar.DescribeContext) Statement {
	d := &Describe{
		Full:      ctx.K_FULL() != nil,
		Only:      ctx.K_ONLY() != nil,
		Internals: ctx.K_INTERNALS() != nil,
	}
	// The optional word stands between DESCRIBE and its object.
	at := 1 // after DESCRIBE
	if d.Full || d.Only {
		at++
	}
	d.Kind = describeKind(kindOf(ctx.GetChild(at)))
	// Lists have no name, and neither has DESCRIBE KEYSPACE of the session's keyspace.
	switch {
	case ctx.TableName() != nil:
		d.Name = tableName(ctx.TableName())
	case ctx.TypeName() != nil:
		d.Name = b.typeName(ctx.TypeName())
	case ctx.FunctionName() != nil:
		d.Name = functionName(ctx.FunctionName())
	case ctx.Ident() != nil:
		d.Name.Name = name(ctx.Ident())
	}
	return d
}

// describeKind returns the object of DESCRIBE by its word. Anything else is a name.
func describeKind(token int) DescribeKind {
	switch token {
	case grammar.CqlLexerK_CLUSTER:
		return DescribeCluster
	case grammar.CqlLexerK_SCHEMA:
		return DescribeSchema
	case grammar.CqlLexerK_KEYSPACES:
		return DescribeKeyspaces
	case grammar.CqlLexerK_KEYSPACE:
		return DescribeKeyspace
	case grammar.CqlLexerK_TABLES:
		return DescribeTables
	case grammar.CqlLexerK_COLUMNFAMILY:
		return DescribeTable
	case grammar.CqlLexerK_INDEX:
		return DescribeIndex
	case grammar.CqlLexerK_MATERIALIZED:
		return DescribeMaterializedView
	case grammar.CqlLexerK_TYPES:
		return DescribeTypes
	case grammar.CqlLexerK_TYPE:
		return DescribeType
	case grammar.CqlLexerK_FUNCTIONS:
		return DescribeFunctions
	case grammar.CqlLexerK_FUNCTION:
		return DescribeFunction
	case grammar.CqlLexerK_AGGREGATES:
		return DescribeAggregates
	case grammar.CqlLexerK_AGGREGATE:
		return DescribeAggregate
	}
	return DescribeGeneric
}
