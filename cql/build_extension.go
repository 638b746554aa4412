package cql

import (
	"strings"

	"cqld/grammar"
)

// createTableLike builds CREATE TABLE … LIKE.
func (b schemaBuilder) createTableLike(ctx *grammar.CreateTableContext) Statement {
	t := &CreateTableLike{
		Table:       tableName(ctx.TableName(0)),
		IfNotExists: ctx.IfNotExists() != nil,
		Source:      tableName(ctx.TableName(1)),
	}
	// The options may be repeated, except properties, and their order does not matter.
	for _, o := range ctx.AllLikeOption() {
		switch {
		case o.K_INDEXES() != nil:
			t.Indexes = true
		case o.K_COMMENTS() != nil:
			t.Comments = true
		case o.K_LABELS() != nil:
			t.Labels = true
		default:
			t.Properties = append(t.Properties, b.property(o.Property()))
		}
	}
	b.checkProperties(t.Properties)
	return t
}

// constraints builds the list of CHECK; nil if there is none.
func (b schemaBuilder) constraints(ctx grammar.IColumnConstraintsContext) []Constraint {
	if ctx == nil {
		return nil
	}
	var out []Constraint
	for _, c := range ctx.AllColumnConstraint() {
		out = append(out, b.constraint(c))
	}
	return out
}

// constraint builds one constraint.
func (b schemaBuilder) constraint(ctx grammar.IColumnConstraintContext) Constraint {
	if ctx.K_NOT() != nil {
		return Constraint{Function: NotNullConstraint}
	}
	var c Constraint
	if o := ctx.Operator(); o != nil {
		c.Operator, c.Value = operator(o), literal(ctx.Constant().GetStart())
	}
	// A name with an operator and without parentheses is the column; with parentheses it is a function.
	if c.Operator != OperatorInvalid && ctx.LPAREN() == nil {
		c.Column = name(ctx.Ident())
		return c
	}
	// All spellings of a function are the same one.
	c.Function = strings.ToUpper(name(ctx.Ident()))
	c.Args = b.terms(ctx.Terms())
	return c
}

// columnDefault builds DEFAULT; nil if there is none.
func (b schemaBuilder) columnDefault(ctx grammar.IColumnDefaultContext) Term {
	if ctx == nil {
		return nil
	}
	return b.term(ctx.Term())
}

// commentOn builds COMMENT ON. The comment is the last token.
func (b schemaBuilder) commentOn(ctx *grammar.CommentOnContext) Statement {
	c := b.commented(ctx.Commented())
	c.Comment = literal(ctx.GetStop())
	return c
}

// securityLabelOn builds SECURITY LABEL ON, which has the same objects as COMMENT ON.
func (b schemaBuilder) securityLabelOn(ctx *grammar.SecurityLabelOnContext) Statement {
	c := b.commented(ctx.Commented())
	c.Label, c.Comment = true, literal(ctx.GetStop())
	// FOR is optional: a label may have no provider.
	if ctx.Ident() != nil {
		c.Provider = name(ctx.Ident())
	}
	return c
}

// undropTable builds UNDROP TABLE. Without AS, the table gets its own name again.
func (b schemaBuilder) undropTable(ctx *grammar.UndropTableContext) Statement {
	u := &UndropTable{Table: tableName(ctx.TableName()), Properties: b.properties(ctx.Properties())}
	// Without AS, the table keeps its name.
	u.As = u.Table.Name
	if ctx.Ident() != nil {
		u.As = name(ctx.Ident())
	}
	return u
}

// undropKeyspace builds UNDROP KEYSPACE. Without AS, the keyspace gets its own name again.
func (b schemaBuilder) undropKeyspace(ctx *grammar.UndropKeyspaceContext) Statement {
	names := ctx.AllIdent()
	u := &UndropKeyspace{Keyspace: name(names[0]), Properties: b.properties(ctx.Properties())}
	// The last name is the only one, or the one after AS.
	u.As = name(names[len(names)-1])
	return u
}

// commented builds the object of COMMENT ON.
func (b schemaBuilder) commented(ctx grammar.ICommentedContext) *CommentOn {
	c := &CommentOn{}
	switch {
	case ctx.KeyspaceKeyword() != nil:
		c.Kind, c.Name.Name = CommentKeyspace, name(ctx.Ident())
	case ctx.K_COLUMNFAMILY() != nil:
		c.Kind, c.Name = CommentTable, tableName(ctx.TableName())
	case ctx.K_TYPE() != nil:
		c.Kind, c.Name = CommentType, b.typeName(ctx.TypeName())
	default:
		// A field of a type and a column of a table have the same form; only the word before them differs.
		c.Kind = CommentColumn
		if ctx.K_FIELD() != nil {
			c.Kind = CommentField
		}
		// The name is table.column or keyspace.table.column.
		all := names(ctx.MemberName().AllIdent())
		c.Member = all[len(all)-1]
		c.Name.Name = all[len(all)-2]
		if len(all) == 3 {
			c.Name.Keyspace = all[0]
		}
	}
	return c
}

// ParseConstraints parses the result of AppendConstraints. The schema keeps constraints as text. They are parsed as a
// part of ALTER TABLE, because Parse accepts whole statements only.
func ParseConstraints(text string) ([]Constraint, error) {
	action, err := parseAlterColumn("CHECK " + text)
	if c, ok := action.(*AlterColumnConstraints); ok {
		return c.Constraints, nil
	}
	return nil, err
}

// ParseTerm parses the result of FormatTerm.
func ParseTerm(text string) (Term, error) {
	action, err := parseAlterColumn("SET DEFAULT " + text)
	if c, ok := action.(*AlterColumnDefault); ok {
		return c.Default, nil
	}
	return nil, err
}

// parseAlterColumn parses the end of ALTER TABLE t ALTER c.
func parseAlterColumn(text string) (AlterTableAction, error) {
	stmt, err := Parse("ALTER TABLE t ALTER c " + text)
	if err != nil {
		return nil, err
	}
	alter, ok := stmt.(*AlterTable)
	// A statement with this prefix is always an ALTER TABLE; the check only avoids a panic.
	if !ok {
		return nil, &SyntaxError{Msg: "not a part of ALTER TABLE: " + text}
	}
	return alter.Action, nil
}
