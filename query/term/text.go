package term

import (
	"strings"

	"cqld/cql"
	"cqld/types"
)

// Text returns a term as Cassandra's messages and result names show it.
func Text(t cql.Term) string {
	switch t := t.(type) {
	case nil:
		return ""
	case *cql.Literal:
		switch t.Kind {
		case cql.LiteralNull:
			return "NULL"
		case cql.LiteralString:
			return "'" + t.Text + "'"
		}
		return t.Text
	case *cql.BindMarker:
		return "?"
	case *cql.ListLiteral:
		return "[" + termsText(t.Elements) + "]"
	case *cql.SetLiteral:
		return "{" + termsText(t.Elements) + "}"
	case *cql.TupleLiteral:
		return "(" + termsText(t.Elements) + ")"
	case *cql.MapLiteral:
		parts := make([]string, len(t.Entries))
		for i, e := range t.Entries {
			parts[i] = Text(e.Key) + ": " + Text(e.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *cql.UDTLiteral:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = f.Name + ": " + Text(f.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *cql.TypeHint:
		return "(" + t.Type.String() + ")" + Text(t.Value)
	case *cql.FunctionCall:
		return FunctionText(t.Name) + "(" + termsText(t.Args) + ")"
	case *cql.CastTerm:
		return "CAST(" + Text(t.Value) + " AS " + t.Type.String() + ")"
	case *cql.ArithmeticTerm:
		return Text(t.Left) + " " + string(rune(t.Operator)) + " " + Text(t.Right)
	case *cql.NegateTerm:
		return "-" + Text(t.Value)
	}
	return ""
}

func termsText(terms []cql.Term) string {
	parts := make([]string, len(terms))
	for i, t := range terms {
		parts[i] = Text(t)
	}
	return strings.Join(parts, ", ")
}

// RelationText returns a relation as Cassandra's messages show it.
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
	case *cql.BetweenRelation:
		return RelationText(r.Low) + " AND " + RelationText(r.High)
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

func notText(not bool) string {
	if not {
		return " NOT"
	}
	return ""
}

func inText(in cql.InList) string {
	if in.Marker != nil {
		return "?"
	}
	return "(" + termsText(in.Values) + ")"
}

func namesText(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = cql.QuoteIdentifier(n)
	}
	return strings.Join(quoted, ", ")
}

// AssignmentText returns an element of SET as Cassandra's messages show it.
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

// SelectorText returns a selector as Cassandra's messages and result names show it.
func SelectorText(x cql.Selector) string {
	switch x := x.(type) {
	case *cql.ColumnSelector:
		return x.Column
	case *cql.TermSelector:
		return Text(x.Term)
	case *cql.CountAll:
		return "count"
	case *cql.FunctionSelector:
		name := x.Name
		if name.Keyspace == "" {
			name.Keyspace = "system"
		}
		return FunctionText(name) + "(" + selectorsText(x.Args) + ")"
	case *cql.CastSelector:
		return "cast(" + SelectorText(x.Value) + " as " + x.Type.String() + ")"
	case *cql.TypeHintSelector:
		return "(" + x.Type.String() + ")" + SelectorText(x.Value)
	case *cql.MetadataSelector:
		return x.Kind.String() + "(" + SelectorText(x.Of) + ")"
	case *cql.FieldSelector:
		return SelectorText(x.Of) + "." + x.Field
	case *cql.ElementSelector:
		return SelectorText(x.Of) + "[" + Text(x.Key) + "]"
	case *cql.SliceSelector:
		return SelectorText(x.Of) + "[" + Text(x.From) + ".." + Text(x.To) + "]"
	case *cql.ListSelector:
		return "[" + selectorsText(x.Elements) + "]"
	case *cql.SetSelector:
		return "{" + selectorsText(x.Elements) + "}"
	case *cql.TupleSelector:
		return "(" + selectorsText(x.Elements) + ")"
	case *cql.MapSelector:
		parts := make([]string, len(x.Entries))
		for i, e := range x.Entries {
			parts[i] = SelectorText(e.Key) + ": " + SelectorText(e.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *cql.UDTSelector:
		parts := make([]string, len(x.Fields))
		for i, f := range x.Fields {
			parts[i] = f.Name + ": " + SelectorText(f.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *cql.ArithmeticSelector:
		return SelectorText(x.Left) + " " + string(rune(x.Operator)) + " " + SelectorText(x.Right)
	case *cql.NegateSelector:
		return "-" + SelectorText(x.Value)
	}
	return ""
}

func selectorsText(in []cql.Selector) string {
	parts := make([]string, len(in))
	for i, x := range in {
		parts[i] = SelectorText(x)
	}
	return strings.Join(parts, ", ")
}

// HintText returns a type as the name of a result column with the type hint e shows it: tuples, which are always frozen, are not
// shown as frozen.
func HintText(e *cql.TypeExpr, t *types.Type) string {
	if t.Kind() == types.UDT {
		text := t.UDTKeyspace() + "." + cql.QuoteIdentifier(t.UDTName())
		if e.Frozen {
			text = "frozen<" + text + ">"
		}
		return text
	}
	text := t.String()
	for {
		before, after, found := strings.Cut(text, "frozen<tuple<")
		if !found {
			return text
		}
		text = before + "tuple<" + withoutClosing(after)
	}
}

// withoutClosing removes the bracket that closes the frozen<…> around a tuple from what follows "frozen<tuple<".
func withoutClosing(text string) string {
	depth := 2
	for i, c := range text {
		switch c {
		case '<':
			depth++
		case '>':
			if depth--; depth == 0 {
				return text[:i] + text[i+1:]
			}
		}
	}
	return text
}
