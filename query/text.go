package query

import (
	"strings"

	"cqld/cql"
)

// termText is a term as Cassandra's messages and result names spell it.
func termText(t cql.Term) string {
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
			parts[i] = termText(e.Key) + ": " + termText(e.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *cql.UDTLiteral:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = f.Name + ": " + termText(f.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *cql.TypeHint:
		return "(" + t.Type.String() + ")" + termText(t.Value)
	case *cql.FunctionCall:
		return functionText(t.Name) + "(" + termsText(t.Args) + ")"
	case *cql.CastTerm:
		return "CAST(" + termText(t.Value) + " AS " + t.Type.String() + ")"
	case *cql.ArithmeticTerm:
		return termText(t.Left) + " " + string(rune(t.Operator)) + " " + termText(t.Right)
	case *cql.NegateTerm:
		return "-" + termText(t.Value)
	}
	return ""
}

func termsText(terms []cql.Term) string {
	parts := make([]string, len(terms))
	for i, t := range terms {
		parts[i] = termText(t)
	}
	return strings.Join(parts, ", ")
}

// relationText is a relation as Cassandra's messages spell it.
func relationText(r cql.Relation) string {
	switch r := r.(type) {
	case *cql.ColumnRelation:
		return cql.QuoteIdentifier(r.Column) + " " + r.Operator.String() + " " + termText(r.Value)
	case *cql.InRelation:
		return cql.QuoteIdentifier(r.Column) + " IN " + inText(r.In)
	case *cql.NotNullRelation:
		return cql.QuoteIdentifier(r.Column) + " IS NOT NULL"
	case *cql.ElementRelation:
		return cql.QuoteIdentifier(r.Column) + "[" + termText(r.Key) + "] " + r.Operator.String() + " " + termText(r.Value)
	case *cql.TokenRelation:
		return "token(" + namesText(r.Columns) + ") " + r.Operator.String() + " " + termText(r.Value)
	case *cql.TupleRelation:
		return "(" + namesText(r.Columns) + ") " + r.Operator.String() + " " + termText(r.Value)
	case *cql.TupleInRelation:
		return "(" + namesText(r.Columns) + ") IN " + inText(r.In)
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

// assignmentText is an element of SET as Cassandra's messages spell it.
func assignmentText(a cql.Assignment) string {
	switch a := a.(type) {
	case *cql.SetColumn:
		return a.Column + " = " + termText(a.Value)
	case *cql.AddToColumn:
		return a.Column + " = " + a.Column + " + " + termText(a.Value)
	case *cql.SubtractFromColumn:
		return a.Column + " = " + a.Column + " - " + termText(a.Value)
	case *cql.PrependToColumn:
		return a.Column + " = " + termText(a.Value) + " - " + a.Column // Cassandra prints the minus, too
	case *cql.SetElement:
		return a.Column + "[" + termText(a.Key) + "] = " + termText(a.Value)
	case *cql.SetField:
		return a.Column + "." + a.Field + " = " + termText(a.Value)
	}
	return ""
}
