package term

import (
	"math"
	"strings"
	"unicode/utf8"

	"cqld/cql"
	"cqld/types"
)

// textBytesMax bounds the text of a term or selector. A [string] of the protocol, which is what names and messages
// are, cannot be longer. Once the text is that long, the remaining terms are not visited, so a large term does not
// make its text expensive.
const textBytesMax = math.MaxUint16

// Cut returns the text within textBytesMax, without a part of a character. The result is valid UTF-8, even if the end
// of the text is lost.
func Cut(text []byte) string {
	if len(text) <= textBytesMax {
		return string(text)
	}
	end := textBytesMax
	// At most three bytes of a character precede the cut.
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end])
}

// Text returns a term as Cassandra's messages and result names show it. Cassandra does not escape quotes in strings,
// and shows names of markers as ?. For example, [1, 2] + ? is shown as system."_add"([1, 2], ?).
func Text(t cql.Term) string { return Cut(appendText(nil, t)) }

// appendText appends the text of a term. It stops soon after textBytesMax; the caller cuts the rest.
func appendText(dst []byte, t cql.Term) []byte {
	if len(dst) > textBytesMax {
		return dst
	}
	switch t := t.(type) {
	case *cql.Literal:
		switch t.Kind {
		// NULL is shown in upper case, regardless of its spelling.
		case cql.LiteralNull:
			return append(dst, "NULL"...)
		case cql.LiteralString:
			return append(append(append(dst, '\''), t.Text...), '\'')
		}
		return append(dst, t.Text...)
	case *cql.BindMarker:
		return append(dst, '?')
	case *cql.ListLiteral:
		return append(appendTexts(append(dst, '['), t.Elements), ']')
	case *cql.SetLiteral:
		return append(appendTexts(append(dst, '{'), t.Elements), '}')
	case *cql.TupleLiteral:
		return append(appendTexts(append(dst, '('), t.Elements), ')')
	case *cql.MapLiteral:
		return append(appendEach(append(dst, '{'), t.Entries, func(dst []byte, e *cql.MapEntry) []byte {
			return appendText(append(appendText(dst, e.Key), ": "...), e.Value)
		}), '}')
	case *cql.UDTLiteral:
		return append(appendEach(append(dst, '{'), t.Fields, func(dst []byte, f *cql.UDTField) []byte {
			return appendText(append(append(dst, f.Name...), ": "...), f.Value)
		}), '}')
	case *cql.TypeHint:
		return appendText(appendHint(dst, t.Type.String()), t.Value)
	}
	// Operators and casts are shown as calls of the functions that implement them.
	name, args, ok := callOf(t)
	if !ok {
		return dst
	}
	if name.Keyspace != "" {
		dst = append(append(dst, cql.QuoteIdentifier(name.Keyspace)...), '.')
	}
	return append(appendTexts(append(append(dst, cql.QuoteIdentifier(name.Name)...), '('), args), ')')
}

// appendHint appends the type of a hint in parentheses.
func appendHint(dst []byte, typ string) []byte { return append(append(append(dst, '('), typ...), ')') }

// appendTexts appends terms with commas between them.
func appendTexts(dst []byte, terms []cql.Term) []byte {
	return appendEach(dst, terms, func(dst []byte, t *cql.Term) []byte { return appendText(dst, *t) })
}

// appendEach appends elements with commas between them, until the text is complete.
func appendEach[E any](dst []byte, all []E, each func([]byte, *E) []byte) []byte {
	for i := range all {
		// The text is longer than the bound; stop here.
		if len(dst) > textBytesMax {
			break
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = each(dst, &all[i])
	}
	return dst
}

// termsText returns terms with commas between them, cut.
func termsText(terms []cql.Term) string { return Cut(appendTexts(nil, terms)) }

// RelationText returns a relation as Cassandra's messages show it. The operator is as in the grammar, with spaces
// around it.
func RelationText(r cql.Relation) string {
	switch r := r.(type) {
	case *cql.ColumnRelation:
		return cql.QuoteIdentifier(r.Column) + " " + r.Operator.String() + " " + Text(r.Value)
	case *cql.InRelation:
		return cql.QuoteIdentifier(r.Column) + notText(r.Not) + " IN " + inText(r.In)
	case *cql.NotNullRelation:
		return cql.QuoteIdentifier(r.Column) + " IS NOT NULL"
	case *cql.ElementRelation:
		return cql.QuoteIdentifier(r.Column) + "[" + Text(r.Key) + "] " + r.Operator.String() + " " + Text(r.Value)
	case *cql.TokenRelation:
		return "token(" + namesText(r.Columns) + ") " + r.Operator.String() + " " + Text(r.Value)
	case *cql.TupleRelation:
		return "(" + namesText(r.Columns) + ") " + r.Operator.String() + " " + Text(r.Value)
	case *cql.TupleInRelation:
		return "(" + namesText(r.Columns) + ")" + notText(r.Not) + " IN " + inText(r.In)
	// BETWEEN is shown as two relations.
	case *cql.BetweenRelation:
		return RelationText(r.Low) + " AND " + RelationText(r.High)
	// OR is an extension without a text in Cassandra.
	case *cql.OrRelation:
		alternatives := make([]string, len(r.Alternatives))
		for i, all := range r.Alternatives {
			parts := make([]string, len(all))
			for j, one := range all {
				parts[j] = RelationText(one)
			}
			alternatives[i] = strings.Join(parts, " AND ")
		}
		return "(" + strings.Join(alternatives, " OR ") + ")"
	}
	return ""
}

// notText returns the NOT of an IN.
func notText(not bool) string {
	if not {
		return " NOT"
	}
	return ""
}

// inText returns the list of an IN.
func inText(in cql.InList) string {
	if in.Marker != nil {
		return "?"
	}
	return "(" + termsText(in.Values) + ")"
}

// namesText returns column names, quoted where necessary.
func namesText(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = cql.QuoteIdentifier(n)
	}
	return strings.Join(quoted, ", ")
}

// AssignmentText returns an element of SET as Cassandra's messages show it. Names are not quoted, unlike in relations.
func AssignmentText(a cql.Assignment) string {
	switch a := a.(type) {
	case *cql.SetColumn:
		return a.Column + " = " + Text(a.Value)
	case *cql.AddToColumn:
		return a.Column + " = " + a.Column + " + " + Text(a.Value)
	case *cql.SubtractFromColumn:
		return a.Column + " = " + a.Column + " - " + Text(a.Value)
	case *cql.PrependToColumn:
		return a.Column + " = " + Text(a.Value) + " - " + a.Column // Cassandra prints the minus, too
	case *cql.SetElement:
		return a.Column + "[" + Text(a.Key) + "] = " + Text(a.Value)
	case *cql.SetField:
		return a.Column + "." + a.Field + " = " + Text(a.Value)
	}
	return ""
}

// SelectorText returns a selector as Cassandra's messages and result names show it. Names of result columns are made of
// it.
func SelectorText(x cql.Selector) string { return Cut(AppendSelector(nil, x)) }

// AppendSelector appends the text of a selector, which may be incomplete if it is longer than a name or message can be.
func AppendSelector(dst []byte, x cql.Selector) []byte {
	if len(dst) > textBytesMax {
		return dst
	}
	switch x := x.(type) {
	case *cql.ColumnSelector:
		return append(dst, x.Column...)
	case *cql.TermSelector:
		return appendText(dst, x.Term)
	case *cql.CountAll:
		return append(dst, "count"...)
	// A name without keyspace may be a native function that implements an operator.
	case *cql.FunctionSelector:
		name := x.Name
		if name.Keyspace == "" {
			name.Keyspace = "system"
		}
		if syntax := SyntaxOf(name, x.Args); syntax != nil {
			return AppendSelector(dst, syntax)
		}
		return append(appendSelectors(append(append(dst, FunctionText(name)...), '('), x.Args), ')')
	case *cql.CastSelector:
		return append(append(append(AppendSelector(append(dst, "cast("...), x.Value), " as "...), x.Type.String()...),
			')')
	case *cql.TypeHintSelector:
		return AppendSelector(appendHint(dst, x.Type.String()), x.Value)
	case *cql.MetadataSelector:
		return append(AppendSelector(append(append(dst, x.Kind.String()...), '('), x.Of), ')')
	case *cql.FieldSelector:
		return append(append(AppendSelector(dst, x.Of), '.'), x.Field...)
	case *cql.ElementSelector:
		// A key is a term and not a selector.
		return append(appendText(append(AppendSelector(dst, x.Of), '['), x.Key), ']')
	case *cql.SliceSelector:
		// An open bound is nil and has an empty text.
		dst = appendText(append(AppendSelector(dst, x.Of), '['), x.From)
		return append(appendText(append(dst, ".."...), x.To), ']')
	case *cql.ArithmeticSelector:
		return AppendSelector(append(AppendSelector(dst, x.Left), ' ', byte(x.Operator), ' '), x.Right)
	case *cql.NegateSelector:
		return AppendSelector(append(dst, '-'), x.Value)
	}
	return appendCollection(dst, x)
}

// SyntaxOf returns the operator or cast that a call of a native function means, or nil. Names of result columns show
// it. Clients may write such a call by name, but Cassandra always shows the operator.
func SyntaxOf(name cql.QualifiedName, args []cql.Selector) cql.Selector {
	if name.Keyspace != "system" {
		return nil
	}
	switch len(args) {
	case 1:
		if name.Name == "_negate" {
			return &cql.NegateSelector{Value: args[0]}
		}
		// The type is a native one: others have no such function.
		if to, ok := strings.CutPrefix(name.Name, "cast_as_"); ok {
			return &cql.CastSelector{Value: args[0], Type: cql.TypeExpr{Name: to}}
		}
	case 2:
		for _, op := range []cql.Arithmetic{'+', '-', '*', '/', '%'} {
			if op.Function() == name.Name {
				return &cql.ArithmeticSelector{Left: args[0], Operator: op, Right: args[1]}
			}
		}
	}
	return nil
}

// appendCollection appends a literal with selectors in it.
func appendCollection(dst []byte, x cql.Selector) []byte {
	switch x := x.(type) {
	case *cql.ListSelector:
		return append(appendSelectors(append(dst, '['), x.Elements), ']')
	case *cql.SetSelector:
		return append(appendSelectors(append(dst, '{'), x.Elements), '}')
	case *cql.TupleSelector:
		return append(appendSelectors(append(dst, '('), x.Elements), ')')
	case *cql.MapSelector:
		return append(appendEach(append(dst, '{'), x.Entries, func(dst []byte, e *cql.MapSelectorEntry) []byte {
			return AppendSelector(append(AppendSelector(dst, e.Key), ": "...), e.Value)
		}), '}')
	case *cql.UDTSelector:
		return append(appendEach(append(dst, '{'), x.Fields, func(dst []byte, f *cql.UDTSelectorField) []byte {
			return AppendSelector(append(append(dst, f.Name...), ": "...), f.Value)
		}), '}')
	}
	return dst
}

// appendSelectors appends selectors with commas between them.
func appendSelectors(dst []byte, in []cql.Selector) []byte {
	return appendEach(dst, in, func(dst []byte, x *cql.Selector) []byte { return AppendSelector(dst, *x) })
}

// HintText returns a type as a type hint shows it in messages and in the names of result columns: names of user-defined
// types have their keyspace, and tuples, which are always frozen, are not shown as frozen. Without the keyspace, two
// types of one name could not be told apart. For example list<frozen<shop.address>>.
func HintText(t *types.Type) string {
	var text string
	switch t.Kind() {
	case types.UDT:
		text = cql.QuoteIdentifier(t.UDTKeyspace()) + "." + cql.QuoteIdentifier(t.UDTName())
	case types.Tuple:
		return "tuple<" + hintTexts(t.Elems()) + ">"
	case types.Vector:
		return "vector<" + hintTexts(t.Elems()) + ", " + itoa(t.Dimensions()) + ">"
	case types.List:
		text = "list<" + hintTexts(t.Elems()) + ">"
	case types.Set:
		text = "set<" + hintTexts(t.Elems()) + ">"
	case types.Map:
		text = "map<" + hintTexts(t.Elems()) + ">"
	default:
		return t.String()
	}
	if !t.MultiCell() {
		text = "frozen<" + text + ">"
	}
	return text
}

// hintTexts returns types with commas between them.
func hintTexts(all []*types.Type) string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = HintText(t)
	}
	return strings.Join(texts, ", ")
}
