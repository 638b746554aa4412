package cql

import (
	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// terms builds a list of terms; nil for none.
func (b *builder) terms(ctx grammar.ITermsContext) []Term {
	if ctx == nil {
		return nil
	}
	children := ctx.GetChildren()
	out := make([]Term, 0, (len(children)+1)/2)
	// Commas are at the odd positions. AllTerm would search the children again.
	for i := 0; i < len(children); i += 2 {
		out = append(out, b.term(children[i].(grammar.ITermContext)))
	}
	return out
}

// term builds a term.
func (b *builder) term(ctx grammar.ITermContext) Term {
	children := ctx.GetChildren()
	return b.sum(children)
}

// sum builds product (± product)* from its children.
func (b *builder) sum(children []antlr.Tree) Term {
	if !b.enterOperators(children) {
		// The error is recorded; return any term to complete the tree.
		return &Literal{}
	}
	defer b.leaveOperators(children)
	left := b.product(children[0].(grammar.IProductContext))
	for i := 2; i < len(children); i += 2 {
		op := Arithmetic(tokenOf(children[i-1]).GetText()[0])
		left = &ArithmeticTerm{Operator: op, Left: left, Right: b.product(children[i].(grammar.IProductContext))}
	}
	return left
}

// product builds simple (*/% simple)* as sum does.
func (b *builder) product(ctx grammar.IProductContext) Term {
	children := ctx.GetChildren()
	if !b.enterOperators(children) {
		// As in sum, return any term.
		return &Literal{}
	}
	defer b.leaveOperators(children)
	left := b.simpleTerm(children[0].(grammar.ISimpleTermContext))
	for i := 2; i < len(children); i += 2 {
		op := Arithmetic(tokenOf(children[i-1]).GetText()[0])
		left = &ArithmeticTerm{Operator: op, Left: left, Right: b.simpleTerm(children[i].(grammar.ISimpleTermContext))}
	}
	return left
}

// simpleTerm builds a term without binary operators, by its first token.
func (b *builder) simpleTerm(ctx grammar.ISimpleTermContext) Term {
	switch kind := kindOf(ctx.GetChild(0)); kind {
	// The first child is a rule: the name of a function.
	case antlr.TokenInvalidType:
		return &FunctionCall{Name: functionName(ctx.FunctionName()), Args: b.terms(ctx.Terms())}
	case grammar.CqlLexerQMARK:
		return b.bindMarker("")
	case grammar.CqlLexerCOLON:
		return b.bindMarker(name(ctx.Ident()))
	// The grammar of CAST has a simple term and a native type only.
	case grammar.CqlLexerK_CAST:
		return &CastTerm{Value: b.simpleTerm(ctx.SimpleTerm()), Type: nativeType(ctx.NativeType())}
	case grammar.CqlLexerLPAREN:
		// The parser has determined by lookahead whether the parentheses contain a type or terms.
		if hint := ctx.DataType(); hint != nil {
			b.refuseNegation(ctx.SimpleTerm())
			return &TypeHint{Type: b.dataType(hint), Value: b.simpleTerm(ctx.SimpleTerm())}
		}
		return &TupleLiteral{Elements: b.terms(ctx.Terms())}
	case grammar.CqlLexerLBRACKET:
		return &ListLiteral{Elements: b.terms(ctx.Terms())}
	case grammar.CqlLexerLBRACE:
		return b.braces(ctx)
	case grammar.CqlLexerMINUS:
		return b.negate(ctx)
	default:
		return literal(ctx.GetStart())
	}
}

// negate builds -x. Cassandra accepts one minus only.
func (b *builder) negate(ctx grammar.ISimpleTermContext) Term {
	inner := ctx.SimpleTerm()
	b.refuseNegation(inner)
	return &NegateTerm{Value: b.simpleTerm(inner)}
}

// refuseNegation rejects a minus after another minus or after a type hint. The minus of a negative number is not a
// token.
func (b *builder) refuseNegation(ctx grammar.ISimpleTermContext) {
	if t := ctx.GetStart(); t.GetTokenType() == grammar.CqlLexerMINUS {
		b.failAt(t, antlr.TokenInvalidType)
	}
}

// braces builds {…}: a user-defined type, a map, or a set. Empty braces are a set here.
func (b *builder) braces(ctx grammar.ISimpleTermContext) Term {
	if fields := ctx.AllUdtField(); len(fields) > 0 {
		out := make([]UDTField, len(fields))
		for i, f := range fields {
			out[i] = UDTField{Name: name(f.Ident()), Value: b.term(f.Term())}
		}
		return &UDTLiteral{Fields: out}
	}
	if entries := ctx.AllMapEntry(); len(entries) > 0 {
		return &MapLiteral{Entries: b.mapEntries(entries)}
	}
	// The expected type determines whether empty braces are a set or a map.
	return &SetLiteral{Elements: b.terms(ctx.Terms())}
}

// mapEntries builds k: v, …. Duplicate keys are not refused here.
func (b *builder) mapEntries(entries []grammar.IMapEntryContext) []MapEntry {
	var out []MapEntry
	for _, e := range entries {
		out = append(out, MapEntry{Key: b.term(e.Term(0)), Value: b.term(e.Term(1))})
	}
	return out
}

// bindMarker builds the next marker. It must be called in the order of the text.
func (b *builder) bindMarker(name string) *BindMarker {
	b.markers++
	return &BindMarker{Index: b.markers - 1, Name: name}
}

// marker builds ? or :name.
func (b *builder) marker(ctx grammar.IMarkerContext) *BindMarker {
	if ident := ctx.Ident(); ident != nil {
		return b.bindMarker(name(ident))
	}
	return b.bindMarker("")
}

// integerValue builds an integer or a marker.
func (b *builder) integerValue(ctx grammar.IIntegerValueContext) Term {
	if marker := ctx.Marker(); marker != nil {
		return b.marker(marker)
	}
	return literal(ctx.GetStart())
}

// literal returns the constant of a token. Text is the spelling without quotes, except that booleans, NaN and
// infinities have one spelling each.
func literal(token antlr.Token) *Literal {
	text := token.GetText()
	switch token.GetTokenType() {
	case grammar.CqlLexerSTRING_LITERAL:
		return &Literal{Kind: LiteralString, Text: stringText(text)}
	case grammar.CqlLexerINTEGER:
		return &Literal{Kind: LiteralInteger, Text: text}
	case grammar.CqlLexerFLOAT:
		return &Literal{Kind: LiteralFloat, Text: text}
	// The lexer reads true and false in any case. The AST has one spelling of each.
	case grammar.CqlLexerBOOLEAN:
		if text[0] == 't' || text[0] == 'T' {
			return &Literal{Kind: LiteralBoolean, Text: "true"}
		}
		return &Literal{Kind: LiteralBoolean, Text: "false"}
	case grammar.CqlLexerDURATION, grammar.CqlLexerISO_DURATION:
		return &Literal{Kind: LiteralDuration, Text: text}
	case grammar.CqlLexerUUID:
		return &Literal{Kind: LiteralUUID, Text: text}
	case grammar.CqlLexerHEXNUMBER:
		return &Literal{Kind: LiteralBlob, Text: text}
	case grammar.CqlLexerK_NULL:
		return &Literal{Kind: LiteralNull}
	case grammar.CqlLexerK_POSITIVE_NAN, grammar.CqlLexerK_NEGATIVE_NAN:
		return &Literal{Kind: LiteralFloat, Text: "NaN"} // a NaN has no sign in CQL
	case grammar.CqlLexerK_POSITIVE_INFINITY:
		return &Literal{Kind: LiteralFloat, Text: "Infinity"}
	case grammar.CqlLexerK_NEGATIVE_INFINITY:
		return &Literal{Kind: LiteralFloat, Text: "-Infinity"}
	}
	panic("cql: a token of constant is no literal")
}
