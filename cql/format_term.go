package cql

// appendTerms appends terms with commas between them, without brackets.
func appendTerms(dst []byte, terms []Term) []byte {
	return appendList(dst, terms, ", ", func(dst []byte, t *Term) []byte { return appendTerm(dst, *t) })
}

// appendTerm appends a term in the spelling that Parse reads as an equal term. For a nil or unknown term it appends
// "?", which only occurs in messages.
func appendTerm(dst []byte, t Term) []byte {
	switch t := t.(type) {
	case *Literal:
		return appendLiteral(dst, t)
	case *BindMarker:
		return appendMarker(dst, t)
	case *ListLiteral:
		return append(appendTerms(append(dst, '['), t.Elements), ']')
	case *SetLiteral:
		return append(appendTerms(append(dst, '{'), t.Elements), '}')
	case *MapLiteral:
		return append(appendList(append(dst, '{'), t.Entries, ", ", func(dst []byte, e *MapEntry) []byte {
			return appendTerm(append(appendTerm(dst, e.Key), ": "...), e.Value)
		}), '}')
	case *UDTLiteral:
		return append(appendList(append(dst, '{'), t.Fields, ", ", func(dst []byte, f *UDTField) []byte {
			return appendTerm(append(appendIdentifier(dst, f.Name), ": "...), f.Value)
		}), '}')
	case *TupleLiteral:
		return append(appendTerms(append(dst, '('), t.Elements), ')')
	case *FunctionCall:
		return append(appendTerms(append(appendFunctionName(dst, t.Name), '('), t.Args), ')')
	case *TypeHint:
		dst = append(appendType(append(dst, '('), &t.Type), ") "...)
		return appendOperand(dst, t.Value, precedenceSimple)
	case *CastTerm:
		dst = append(appendOperand(append(dst, "CAST("...), t.Value, precedenceSimple), " AS "...)
		return append(appendType(dst, &t.Type), ')')
	case *ArithmeticTerm:
		own := precedence(t.Operator)
		dst = appendOperand(dst, t.Left, own)
		dst = append(dst, ' ', byte(t.Operator), ' ')
		// The right operand needs a higher precedence: operators are left-associative.
		return appendOperand(dst, t.Right, own+1)
	case *NegateTerm:
		// Add a space, because -5 would be parsed as a negative number.
		return appendOperand(append(dst, "- "...), t.Value, precedenceSimple)
	}
	return append(dst, '?')
}

// The precedence of operators. An operand with a lower precedence than its place requires needs parentheses; Parse
// never returns one.
const (
	precedenceSum = iota
	precedenceProduct
	precedenceSimple
)

// precedence returns the level of an operator.
func precedence(a Arithmetic) int {
	if a == Plus || a == Minus {
		return precedenceSum
	}
	return precedenceProduct
}

// appendOperand appends an operand, in parentheses if its operator binds less tightly than wanted. Parsed terms
// contain a TupleLiteral for such parentheses, so only terms that were built otherwise need them.
func appendOperand(dst []byte, t Term, wanted int) []byte {
	if a, ok := t.(*ArithmeticTerm); ok && precedence(a.Operator) < wanted {
		return append(appendTerm(append(dst, '('), t), ')')
	}
	return appendTerm(dst, t)
}

// appendLiteral appends a constant. All kinds but null and strings keep their spelling in Text.
func appendLiteral(dst []byte, l *Literal) []byte {
	//exhaustive:enforce
	switch l.Kind {
	case LiteralNull:
		return append(dst, "NULL"...)
	case LiteralString:
		return appendString(dst, l.Text)
	// Text is the spelling of the literal already.
	case LiteralInvalid, LiteralInteger, LiteralFloat, LiteralBoolean, LiteralUUID, LiteralBlob, LiteralDuration:
	}
	return append(dst, l.Text...)
}

// appendMarker appends ? or :name. A formatted marker keeps its index only if the text keeps the order.
func appendMarker(dst []byte, m *BindMarker) []byte {
	if m.Name == "" {
		return append(dst, '?')
	}
	return appendIdentifier(append(dst, ':'), m.Name)
}

// appendComparison appends an operator and the value on its right.
func appendComparison(dst []byte, o Operator, value Term) []byte {
	dst = append(append(append(dst, ' '), o.String()...), ' ')
	return appendTerm(dst, value)
}
