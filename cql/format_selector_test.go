package cql

func appendSelectColumns(dst []byte, columns []SelectColumn) []byte {
	if len(columns) == 0 {
		return append(dst, '*')
	}
	return appendList(dst, columns, ", ", func(dst []byte, c *SelectColumn) []byte {
		dst = appendSelector(dst, c.Selector)
		if c.Alias != "" {
			dst = appendIdentifier(append(dst, " AS "...), c.Alias)
		}
		return dst
	})
}

func appendSelectors(dst []byte, selectors []Selector) []byte {
	return appendList(dst, selectors, ", ", func(dst []byte, s *Selector) []byte { return appendSelector(dst, *s) })
}

func appendSelector(dst []byte, s Selector) []byte {
	switch s := s.(type) {
	case *ColumnSelector:
		return appendSelectedColumn(dst, s.Column)
	case *TermSelector:
		return appendTerm(dst, s.Term)
	case *CountAll:
		return append(dst, "count(*)"...)
	case *FunctionSelector:
		return append(appendSelectors(append(appendFunctionName(dst, s.Name), '('), s.Args), ')')
	case *CastSelector:
		dst = append(appendSelector(append(dst, "CAST("...), s.Value), " AS "...)
		return append(appendType(dst, &s.Type), ')')
	case *TypeHintSelector:
		dst = append(appendType(append(dst, '('), &s.Type), ") "...)
		return appendSelectorOperand(dst, s.Value, precedenceSimple)
	case *MetadataSelector:
		dst = append(append(dst, s.Kind.String()...), '(')
		return append(appendSelector(dst, s.Of), ')')
	case *FieldSelector:
		return appendIdentifier(append(appendModified(dst, s.Of), '.'), s.Field)
	case *ElementSelector:
		return append(appendTerm(append(appendModified(dst, s.Of), '['), s.Key), ']')
	case *SliceSelector:
		return appendSlice(dst, s)
	case *ArithmeticSelector:
		own := precedence(s.Operator)
		dst = appendSelectorOperand(dst, s.Left, own)
		dst = append(dst, ' ', byte(s.Operator), ' ')
		return appendSelectorOperand(dst, s.Right, own+1)
	case *NegateSelector:
		return appendSelectorOperand(append(dst, "- "...), s.Value, precedenceSimple)
	}
	return appendCollectionSelector(dst, s)
}

func appendCollectionSelector(dst []byte, s Selector) []byte {
	switch s := s.(type) {
	case *ListSelector:
		return append(appendSelectors(append(dst, '['), s.Elements), ']')
	case *SetSelector:
		return append(appendSelectors(append(dst, '{'), s.Elements), '}')
	case *TupleSelector:
		return append(appendSelectors(append(dst, '('), s.Elements), ')')
	case *MapSelector:
		return append(appendList(append(dst, '{'), s.Entries, ", ", func(dst []byte, e *MapSelectorEntry) []byte {
			return appendSelector(append(appendSelector(dst, e.Key), ": "...), e.Value)
		}), '}')
	case *UDTSelector:
		return append(appendList(append(dst, '{'), s.Fields, ", ", func(dst []byte, f *UDTSelectorField) []byte {
			return appendSelector(append(appendIdentifier(dst, f.Name), ": "...), f.Value)
		}), '}')
	}
	return append(dst, '?')
}

// appendSelectedColumn appends a column. It quotes json and distinct, which have another meaning after SELECT if more
// follows.
func appendSelectedColumn(dst []byte, name string) []byte {
	if name == "json" || name == "distinct" {
		return appendQuoted(dst, name, '"')
	}
	return appendIdentifier(dst, name)
}

// appendModified appends a selector whose field, element or slice is selected.
func appendModified(dst []byte, of Selector) []byte {
	dst = appendSelectorOperand(dst, of, precedenceSimple)
	if _, constant := of.(*TermSelector); constant {
		dst = append(dst, ' ') // otherwise 1.a would begin with a float
	}
	return dst
}

func appendSlice(dst []byte, s *SliceSelector) []byte {
	dst = append(appendModified(dst, s.Of), '[')
	if s.From != nil {
		dst = append(appendTerm(dst, s.From), ' ') // otherwise 1... would begin with a float
	}
	dst = append(dst, ".."...)
	if s.To != nil {
		dst = appendTerm(append(dst, ' '), s.To)
	}
	return append(dst, ']')
}

func appendSelectorOperand(dst []byte, s Selector, wanted int) []byte {
	loose := false
	switch s := s.(type) {
	case *ArithmeticSelector:
		loose = precedence(s.Operator) < wanted
	default:
	}
	if loose {
		return append(appendSelector(append(dst, '('), s), ')')
	}
	return appendSelector(dst, s)
}
