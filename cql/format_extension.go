package cql

// AppendConstraints appends the constraints of CHECK, without that word.
func AppendConstraints(dst []byte, all []Constraint) []byte {
	return appendList(dst, all, " AND ", appendConstraint)
}

func appendConstraint(dst []byte, c *Constraint) []byte {
	switch {
	case c.Column != "":
		dst = appendIdentifier(dst, c.Column)
	case c.Function == NotNullConstraint && c.Operator == OperatorInvalid && len(c.Args) == 0:
		return append(dst, "NOT NULL"...)
	default:
		dst = appendConstraintFunction(dst, c.Function)
		dst = append(appendTerms(append(dst, '('), c.Args), ')')
	}
	if c.Operator == OperatorInvalid {
		return dst
	}
	return appendComparison(dst, c.Operator, c.Value)
}

// appendConstraintFunction appends a name in upper case, quoted if it is not a plain word.
func appendConstraintFunction(dst []byte, name string) []byte {
	for _, c := range []byte(name) {
		if c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return appendIdentifier(dst, name)
		}
	}
	return append(dst, name...)
}

// FormatTerm returns a term as CQL text.
func FormatTerm(t Term) string { return string(appendTerm(nil, t)) }
