package cql

import (
	"fmt"

	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// selectColumns builds the selectors of SELECT with their aliases; nil for *.
func (b *builder) selectColumns(ctx grammar.ISelectColumnsContext) []SelectColumn {
	if ctx.STAR() != nil {
		return nil
	}
	var out []SelectColumn
	for _, c := range ctx.AllSelectColumn() {
		column := SelectColumn{Selector: b.selector(c.Selector())}
		// Without an alias the result's column has the text of the selector, which package query formats.
		if alias := c.Ident(); alias != nil {
			column.Alias = name(alias)
		}
		out = append(out, column)
	}
	return out
}

// selectors builds a list of selectors, which may be empty.
func (b *builder) selectors(ctx grammar.ISelectorsContext) []Selector {
	if ctx == nil {
		return nil
	}
	return b.selectorList(ctx.AllSelector())
}

// selectorList builds selectors in the order of the text.
func (b *builder) selectorList(all []grammar.ISelectorContext) []Selector {
	var out []Selector
	for _, s := range all {
		out = append(out, b.selector(s))
	}
	return out
}

// selector builds product (± product)*, left-associative: each operator becomes the parent of the selector built so
// far.
func (b *builder) selector(ctx grammar.ISelectorContext) Selector {
	children := ctx.GetChildren()
	if !b.enterOperators(children) {
		// The error is recorded; return any selector to complete the tree.
		return &ColumnSelector{}
	}
	defer b.leaveOperators(children)
	left := b.selectorProduct(children[0].(grammar.ISelectorProductContext))
	for i := 2; i < len(children); i += 2 {
		op := Arithmetic(tokenOf(children[i-1]).GetText()[0])
		left = &ArithmeticSelector{Operator: op, Left: left,
			Right: b.selectorProduct(children[i].(grammar.ISelectorProductContext))}
	}
	return left
}

// selectorProduct builds unary (*/% unary)*, as selector does.
func (b *builder) selectorProduct(ctx grammar.ISelectorProductContext) Selector {
	children := ctx.GetChildren()
	// A single operand has no operators to count.
	if !b.enterOperators(children) {
		return &ColumnSelector{}
	}
	defer b.leaveOperators(children)
	left := b.selectorUnary(children[0].(grammar.ISelectorUnaryContext))
	for i := 2; i < len(children); i += 2 {
		op := Arithmetic(tokenOf(children[i-1]).GetText()[0])
		left = &ArithmeticSelector{Operator: op, Left: left,
			Right: b.selectorUnary(children[i].(grammar.ISelectorUnaryContext))}
	}
	return left
}

// selectorUnary builds a minus, or a selector with its modifiers.
func (b *builder) selectorUnary(ctx grammar.ISelectorUnaryContext) Selector {
	if inner := ctx.SelectorUnary(); inner != nil {
		return &NegateSelector{Value: b.selectorUnary(inner)}
	}
	// Modifiers bind more tightly than a minus: -a[0] is -(a[0]).
	return b.modified(b.simpleSelector(ctx.SimpleSelector()), ctx.AllSelectorModifier())
}

// modified wraps a selector in the fields, elements and slices that follow it. The first modifier is the innermost:
// a.b[1] is an element of a field.
func (b *builder) modified(of Selector, modifiers []grammar.ISelectorModifierContext) Selector {
	// Modifiers are a list in the text and nested in the AST, whose depth is bounded.
	if len(modifiers) > depthMax {
		b.fail(fmt.Sprintf("More than %d fields, elements and slices of one selector", depthMax))
		return of
	}
	for _, m := range modifiers {
		if field := m.Ident(); field != nil {
			of = &FieldSelector{Of: of, Field: name(field)}
			continue
		}
		if m.RANGE() == nil {
			of = &ElementSelector{Of: of, Key: b.term(m.Term(0))}
			continue
		}
		slice := &SliceSelector{Of: of}
		for _, child := range m.GetChildren() {
			term, ok := child.(grammar.ITermContext)
			switch {
			case !ok:
			// Either bound may be missing; the position relative to .. shows which one the term is.
			case term.GetStart().GetTokenIndex() < m.RANGE().GetSymbol().GetTokenIndex():
				slice.From = b.term(term)
			default:
				slice.To = b.term(term)
			}
		}
		of = slice
	}
	return of
}

// simpleSelector builds a selector without operators and modifiers, by its first child.
func (b *builder) simpleSelector(ctx grammar.ISimpleSelectorContext) Selector {
	switch child := ctx.GetChild(0).(type) {
	case *grammar.IdentContext:
		return &ColumnSelector{Column: name(child)}
	case *grammar.ConstantContext:
		return &TermSelector{Term: literal(child.GetStart())}
	case *grammar.MarkerContext:
		return &TermSelector{Term: b.marker(child)}
	case *grammar.FunctionNameContext:
		return b.functionSelector(ctx)
	// The first child is a keyword or a bracket, which determines the form.
	case antlr.TerminalNode:
		return b.keywordSelector(child.GetSymbol().GetTokenType(), ctx)
	}
	panic("cql: a rule of simpleSelector has no builder")
}

// keywordSelector builds a selector that begins with a token: a pseudo-function, or a bracket.
func (b *builder) keywordSelector(kind int, ctx grammar.ISimpleSelectorContext) Selector {
	switch kind {
	// COUNT(*) has its own rule; the parser reads COUNT(column) as a function.
	case grammar.CqlLexerK_COUNT:
		return &CountAll{}
	case grammar.CqlLexerK_WRITETIME:
		return b.metadataSelector(WriteTime, ctx)
	case grammar.CqlLexerK_MAXWRITETIME:
		return b.metadataSelector(MaxWriteTime, ctx)
	case grammar.CqlLexerK_TTL:
		return b.metadataSelector(TTL, ctx)
	case grammar.CqlLexerK_CAST:
		return &CastSelector{Value: b.selector(ctx.Selector()), Type: nativeType(ctx.NativeType())}
	case grammar.CqlLexerLPAREN:
		// (int) x is a hint; (x) without a type is a tuple, or parentheses.
		if hint := ctx.DataType(); hint != nil {
			return &TypeHintSelector{Type: b.dataType(hint), Value: b.simpleSelector(ctx.SimpleSelector())}
		}
		return &TupleSelector{Elements: b.selectors(ctx.Selectors())}
	case grammar.CqlLexerLBRACKET:
		return &ListSelector{Elements: b.selectors(ctx.Selectors())}
	case grammar.CqlLexerLBRACE:
		return b.bracesSelector(ctx)
	}
	panic("cql: a token of simpleSelector has no builder")
}

// metadataSelector builds WRITETIME, MAXWRITETIME or TTL of a column or a part of it.
func (b *builder) metadataSelector(kind Metadata, ctx grammar.ISimpleSelectorContext) Selector {
	column := &ColumnSelector{Column: name(ctx.Ident())}
	return &MetadataSelector{Kind: kind, Of: b.modified(column, ctx.AllSelectorModifier())}
}

// functionSelector builds f(…). COUNT of any constant counts rows, as in SQL.
func (b *builder) functionSelector(ctx grammar.ISimpleSelectorContext) Selector {
	f := &FunctionSelector{Name: functionName(ctx.FunctionName()), Args: b.selectors(ctx.Selectors())}
	if f.Name == (QualifiedName{Name: "count"}) && len(f.Args) == 1 {
		// A constant is never null, so every row is counted. A null literal stays an argument of the function.
		if arg, ok := f.Args[0].(*TermSelector); ok {
			if l, ok := arg.Term.(*Literal); ok && l.Kind != LiteralNull {
				return &CountAll{}
			}
		}
	}
	return f
}

// bracesSelector builds {…}: a set, a map, or a user-defined type if all keys are bare names. {a} is a set and {a: b}
// a map, or a user-defined type if a is a bare name.
func (b *builder) bracesSelector(ctx grammar.ISimpleSelectorContext) Selector {
	entries := ctx.AllMapSelectorEntry()
	// Without a colon it is a set. The type determines whether empty braces are a set or a map.
	if len(entries) == 0 {
		return &SetSelector{Elements: b.selectors(ctx.Selectors())}
	}
	out := make([]MapSelectorEntry, len(entries))
	bare := true
	for i, e := range entries {
		out[i] = MapSelectorEntry{Key: b.selector(e.Selector(0)), Value: b.selector(e.Selector(1))}
		_, isColumn := out[i].Key.(*ColumnSelector)
		bare = bare && isColumn
	}
	if !bare {
		// A key that is no bare name cannot be a field.
		return &MapSelector{Entries: out}
	}
	fields := make([]UDTSelectorField, len(out))
	for i, e := range out {
		fields[i] = UDTSelectorField{Name: e.Key.(*ColumnSelector).Column, Value: e.Value}
	}
	return &UDTSelector{Fields: fields}
}
