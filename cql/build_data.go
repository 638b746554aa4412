package cql

import (
	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// selectStatement builds SELECT. Its parts are built in the order of the text, because they may contain markers.
func (b dataBuilder) selectStatement(ctx *grammar.SelectStatementContext) Statement {
	// Go evaluates the calls in the order of the fields, so clauses that may contain markers must be in the order of
	// the text.
	s := &Select{
		JSON:      ctx.K_JSON() != nil,
		Distinct:  ctx.K_DISTINCT() != nil,
		Columns:   b.selectColumns(ctx.SelectColumns()),
		Table:     tableName(ctx.TableName()),
		Fragments: ctx.K_MUTATION_FRAGMENTS() != nil,
		Where:     b.where(ctx.WhereClause()),
	}
	// Elements of GROUP BY are selectors, because floor(…) of a clustering column is allowed.
	if c := ctx.GroupBy(); c != nil {
		s.GroupBy = b.selectorList(c.AllSelector())
	}
	if c := ctx.OrderBy(); c != nil {
		for _, o := range c.AllOrdering() {
			ordering := Ordering{Column: name(o.ColumnName()), Descending: o.K_DESC() != nil}
			if o.K_ANN() != nil {
				ordering.ANN = b.term(o.Term())
			}
			s.OrderBy = append(s.OrderBy, ordering)
		}
	}
	if c := ctx.PerPartitionLimit(); c != nil {
		s.PerPartitionLimit = b.integerValue(c.IntegerValue())
	}
	if c := ctx.Limit(); c != nil {
		s.Limit = b.integerValue(c.IntegerValue())
	}
	if c := ctx.Offset(); c != nil {
		s.Offset = b.integerValue(c.IntegerValue())
	}
	s.AllowFiltering = ctx.AllowFiltering() != nil
	s.Timeout = b.timeoutClause(ctx.TimeoutClause())
	return s
}

// insert builds INSERT … VALUES and INSERT … JSON, which are one rule of the grammar.
func (b dataBuilder) insert(ctx *grammar.InsertContext) Statement {
	table := tableName(ctx.TableName())
	ifNotExists := ctx.IfNotExists() != nil
	if ctx.K_JSON() == nil {
		// The lengths of the two lists are compared by package query, which has Cassandra's message for it.
		columns := names(ctx.ColumnNames().AllColumnName())
		values := b.terms(ctx.Terms())
		return &Insert{Table: table, Columns: columns, Values: values, IfNotExists: ifNotExists,
			Using: b.using(ctx.UsingClause())}
	}
	// JSON is one string or one marker: no term may compute it.
	var value Term
	if marker := ctx.JsonValue().Marker(); marker != nil {
		value = b.marker(marker)
	} else {
		value = literal(ctx.JsonValue().GetStart())
	}
	return &InsertJSON{
		Table:        table,
		Value:        value,
		DefaultUnset: ctx.K_UNSET() != nil,
		IfNotExists:  ifNotExists,
		Using:        b.using(ctx.UsingClause()),
	}
}

// update builds UPDATE.
func (b dataBuilder) update(ctx *grammar.UpdateContext) Statement {
	u := &Update{
		Table: tableName(ctx.TableName()),
		Using: b.using(ctx.UsingClause()),
	}
	for _, a := range ctx.AllAssignment() {
		u.Assignments = append(u.Assignments, b.assignment(a))
	}
	// Check before WHERE is built, because the builder reports its first error.
	b.checkAssignments(u.Assignments)
	u.Where = b.where(ctx.WhereClause())
	u.IfExists, u.Conditions = b.ifClause(ctx.IfClause())
	return u
}

// delete builds DELETE. Its USING has a rule of its own, because it takes no TTL.
func (b dataBuilder) delete(ctx *grammar.DeleteContext) Statement {
	d := &Delete{Table: tableName(ctx.TableName())}
	// The targets precede USING and WHERE in the text, so their markers come first.
	for _, t := range ctx.AllDeleteTarget() {
		target := DeleteTarget{Column: name(t.ColumnName())}
		if key := t.Term(); key != nil {
			target.Key = b.term(key)
		}
		if field := t.Ident(); field != nil {
			target.Field = name(field)
		}
		d.Targets = append(d.Targets, target)
	}
	if u := ctx.DeleteUsing(); u != nil {
		for _, child := range u.GetChildren() {
			b.usingOption(&d.Using, child)
		}
		// Cassandra's grammar expects WHERE at the second AND, and so does the message.
		if repeated := u.AllUsingTimestamp(); len(repeated) > 1 { // unlike INSERT and UPDATE
			b.failAt(u.K_AND(0).GetSymbol(), grammar.CqlParserK_WHERE)
		}
	}
	d.Where = b.where(ctx.WhereClause())
	d.IfExists, d.Conditions = b.ifClause(ctx.IfClause())
	return d
}

// batch builds BEGIN BATCH … APPLY BATCH. Markers are numbered through all of its statements.
func (b dataBuilder) batch(ctx *grammar.BatchContext) Statement {
	batch := &Batch{Using: b.using(ctx.UsingClause())}
	switch {
	case ctx.K_UNLOGGED() != nil:
		batch.Kind = BatchUnlogged
	case ctx.K_COUNTER() != nil:
		batch.Kind = BatchCounter
	}
	for _, s := range ctx.AllBatchStatement() {
		// The rule only allows these three kinds of statements.
		switch c := s.GetChild(0).(type) {
		case *grammar.InsertContext:
			batch.Statements = append(batch.Statements, b.insert(c))
		case *grammar.UpdateContext:
			batch.Statements = append(batch.Statements, b.update(c))
		case *grammar.DeleteContext:
			batch.Statements = append(batch.Statements, b.delete(c))
		}
	}
	return batch
}

// using builds USING. If an option is repeated, the last one counts.
func (b dataBuilder) using(ctx grammar.IUsingClauseContext) Using {
	var u Using
	if ctx == nil {
		return u
	}
	for _, o := range ctx.AllUsingOption() {
		// TTL is the only option without a rule of its own.
		if ttl := o.IntegerValue(); ttl != nil {
			b.setUsing(&u.TTL, b.integerValue(ttl))
		} else {
			b.usingOption(&u, o.GetChild(0))
		}
	}
	return u
}

// usingOption sets the timestamp or the timeout.
func (b dataBuilder) usingOption(u *Using, ctx antlr.Tree) {
	// Words and AND between the options are children too, and are skipped.
	switch c := ctx.(type) {
	case *grammar.UsingTimestampContext:
		b.setUsing(&u.Timestamp, b.integerValue(c.IntegerValue()))
	case *grammar.UsingTimeoutContext:
		b.setUsing(&u.Timeout, b.timeout(c))
	}
}

// setUsing sets an option of USING. It refuses a marker that a later value would replace, because no value could be
// bound to it.
func (b dataBuilder) setUsing(option *Term, value Term) {
	if _, lost := (*option).(*BindMarker); lost {
		b.fail("Bind variable in USING is overridden by a later one")
	}
	*option = value
}

// timeout builds the value of TIMEOUT: a duration or a marker.
func (b dataBuilder) timeout(ctx grammar.IUsingTimeoutContext) Term {
	if marker := ctx.Marker(); marker != nil {
		return b.marker(marker)
	}
	// The duration is the last token of the rule; the first is TIMEOUT.
	return literal(ctx.GetStop())
}

// timeoutClause builds USING TIMEOUT of a statement that has no other option; nil if there is none.
func (b dataBuilder) timeoutClause(ctx grammar.ITimeoutClauseContext) Term {
	if ctx == nil {
		return nil
	}
	return b.timeout(ctx.UsingTimeout())
}

// assignment builds one element of SET.
func (b dataBuilder) assignment(ctx grammar.IAssignmentContext) Assignment {
	column := name(ctx.ColumnName())
	// The forms are distinguished by their punctuation, which no other form has.
	switch {
	case ctx.AssignmentValue() != nil:
		return b.assignmentValue(column, ctx.AssignmentValue())
	case ctx.PLUS_EQ() != nil:
		return &AddToColumn{Column: column, Value: b.term(ctx.Term(0))}
	case ctx.MINUS_EQ() != nil:
		return &SubtractFromColumn{Column: column, Value: b.term(ctx.Term(0))}
	case ctx.LBRACKET() != nil:
		key := b.term(ctx.Term(0))
		return &SetElement{Column: column, Key: key, Value: b.term(ctx.Term(1))}
	default:
		return &SetField{Column: column, Field: name(ctx.Ident()), Value: b.term(ctx.Term(0))}
	}
}

// assignmentValue builds the expression after "column =". A column in it must be the same column.
func (b dataBuilder) assignmentValue(column string, ctx grammar.IAssignmentValueContext) Assignment {
	other := ctx.ColumnName()
	// The error is recorded below, with the right message; the AST is built in any case.
	same := other == nil || name(other) == column
	children := ctx.GetChildren()
	switch {
	case other == nil:
		return &SetColumn{Column: column, Value: b.sum(children)}
	// For c = c -3, the lexer reads the sign as a part of the number, so there is no operator.
	case ctx.INTEGER() != nil:
		text := ctx.INTEGER().GetText()
		if !same {
			sign := "+"
			if text[0] == '-' {
				sign = "-"
			}
			b.fail("Only expressions of the form X = X " + sign + " <value> are supported.")
		}
		return &AddToColumn{Column: column, Value: &Literal{Kind: LiteralInteger, Text: text}}
	case ctx.Term() == nil: // the last two children are "+ column"
		if !same {
			b.fail("Only expressions of the form X = <value> + X are supported.")
		}
		return &PrependToColumn{Column: column, Value: b.sum(children[:len(children)-2])}
	}
	operator := tokenOf(children[1]).GetText()
	if !same {
		b.fail("Only expressions of the form X = X " + operator + "<value> are supported.")
	}
	value := b.term(ctx.Term())
	if operator == "+" {
		return &AddToColumn{Column: column, Value: value}
	}
	return &SubtractFromColumn{Column: column, Value: value}
}

// checkAssignments refuses two assignments to one column, except to two of its elements or fields, or two additions
// or subtractions.
func (b dataBuilder) checkAssignments(all []Assignment) {
	if len(all) < 2 {
		return
	}
	setWhole := make(map[string]bool, len(all))
	for _, a := range all {
		column, whole := assignedColumn(a)
		// Two partial assignments are compatible, because they add up or change different elements. An assignment of
		// the whole column excludes all others.
		if earlier, twice := setWhole[column]; twice && (earlier || whole) {
			b.fail("Multiple incompatible setting of column " + shown(column))
			return
		}
		setWhole[column] = setWhole[column] || whole
	}
}

// assignedColumn returns the column of an assignment, and whether the assignment sets the whole column.
func assignedColumn(a Assignment) (column string, whole bool) {
	switch a := a.(type) {
	case *SetColumn:
		return a.Column, true
	case *AddToColumn:
		return a.Column, false
	case *SubtractFromColumn:
		return a.Column, false
	case *PrependToColumn:
		return a.Column, false
	case *SetElement:
		return a.Column, false
	case *SetField:
		return a.Column, false
	}
	panic("cql: an assignment has no column")
}

// ifClause builds IF EXISTS, or IF with conditions. Both results are zero without IF.
func (b dataBuilder) ifClause(ctx grammar.IIfClauseContext) (exists bool, conditions []Condition) {
	if ctx == nil {
		return false, nil
	}
	// IF EXISTS has no condition in the tree.
	for _, c := range ctx.AllCondition() {
		conditions = append(conditions, b.condition(c))
	}
	return ctx.K_EXISTS() != nil, conditions
}

// condition builds one condition of IF. The subject comes first in the text, then the operator, then the value.
func (b dataBuilder) condition(ctx grammar.IConditionContext) Condition {
	c := Condition{Column: name(ctx.ColumnName())}
	terms := ctx.AllTerm()
	if ctx.LBRACKET() != nil {
		c.Key = b.term(terms[0])
		// The first term is the key; the others are compared.
		terms = terms[1:]
	}
	if field := ctx.Ident(); field != nil {
		c.Field = name(field)
	}
	switch {
	case ctx.K_IN() != nil:
		// A condition with IN has no Value and no Operator.
		in := b.inValues(ctx.InValues())
		c.In = &in
		return c
	case ctx.K_CONTAINS() != nil:
		c.Operator = containsOperator(ctx.K_KEY() != nil)
	default:
		c.Operator = operator(ctx.Operator())
	}
	c.Value = b.term(terms[0])
	return c
}

// containsOperator returns CONTAINS KEY, or CONTAINS.
func containsOperator(key bool) Operator {
	if key {
		return ContainsKey
	}
	return Contains
}

// operator returns the operator of a rule of one token.
func operator(ctx grammar.IOperatorContext) Operator {
	switch ctx.GetStart().GetTokenType() {
	case grammar.CqlLexerEQ:
		return Equal
	case grammar.CqlLexerNEQ:
		return NotEqual
	case grammar.CqlLexerLT:
		return Less
	case grammar.CqlLexerLTE:
		return LessOrEqual
	case grammar.CqlLexerGT:
		return Greater
	case grammar.CqlLexerGTE:
		return GreaterOrEqual
	}
	// The rule does not contain LIKE, CONTAINS and other keywords, which the relations handle.
	panic("cql: a token of operator has no builder")
}

// inValues builds the list of IN: IN ? has one marker for the whole list, IN (?) one for an element. An empty list is
// IN (), which the grammar allows.
func (b dataBuilder) inValues(ctx grammar.IInValuesContext) InList {
	if marker := ctx.Marker(); marker != nil {
		return InList{Marker: b.marker(marker)}
	}
	return InList{Values: b.terms(ctx.Terms())}
}
