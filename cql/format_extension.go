package cql

// AppendConstraints appends the constraints of CHECK, without that word.
func AppendConstraints(dst []byte, all []Constraint) []byte {
	return appendList(dst, all, " AND ", appendConstraint)
}

// appendConstraint appends one constraint, so that ParseConstraints returns an equal one.
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
	// A function without a comparison, for example CHECK JSON().
	if c.Operator == OperatorInvalid {
		return dst
	}
	return appendComparison(dst, c.Operator, c.Value)
}

// appendConstraintFunction appends a name in upper case, quoted if it is not a plain word.
func appendConstraintFunction(dst []byte, name string) []byte {
	for _, c := range []byte(name) {
		// The builder has made the name upper case. Parsing folds an unquoted name, and the builder folds it back.
		if c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return appendIdentifier(dst, name)
		}
	}
	return append(dst, name...)
}

// FormatTerm returns a term as CQL text. ParseTerm reads it back as an equal term. The schema stores defaults in this
// form.
func FormatTerm(t Term) string { return string(appendTerm(nil, t)) }
