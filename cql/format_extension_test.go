package cql

func appendCreateTableLike(dst []byte, s *CreateTableLike) []byte {
	dst = appendIf(append(dst, "CREATE TABLE "...), s.IfNotExists, "IF NOT EXISTS ")
	dst = append(appendQualifiedName(dst, s.Table), " LIKE "...)
	dst = appendQualifiedName(dst, s.Source)
	word := " WITH "
	for _, option := range []struct {
		set  bool
		text string
	}{{s.Indexes, "INDEXES"}, {s.Comments, "COMMENTS"}, {s.Labels, "SECURITY LABELS"}} {
		if option.set {
			dst = append(append(dst, word...), option.text...)
			word = " AND "
		}
	}
	return appendPropertyList(dst, word, s.Properties)
}

func appendColumnConstraints(dst []byte, c *ColumnDefinition) []byte {
	if len(c.Constraints) > 0 {
		dst = AppendConstraints(append(dst, " CHECK "...), c.Constraints)
	}
	if c.Default != nil {
		dst = appendTerm(append(dst, " DEFAULT "...), c.Default)
	}
	return dst
}

func appendCommentOn(dst []byte, s *CommentOn) []byte {
	switch {
	case s.Label && s.Provider != "":
		dst = append(appendIdentifier(append(dst, "SECURITY LABEL FOR "...), s.Provider), " ON "...)
	case s.Label:
		dst = append(dst, "SECURITY LABEL ON "...)
	default:
		dst = append(dst, "COMMENT ON "...)
	}
	dst = append(append(dst, s.Kind.String()...), ' ')
	dst = appendQualifiedName(dst, s.Name)
	if s.Kind == CommentColumn || s.Kind == CommentField {
		dst = appendIdentifier(append(dst, '.'), s.Member)
	}
	return appendLiteral(append(dst, " IS "...), s.Comment)
}

func appendDroppedTable(dst []byte, s Statement) []byte {
	if p, ok := s.(*PurgeTable); ok {
		dst = appendIf(append(dst, "PURGE TABLE "...), p.IfExists, "IF EXISTS ")
		return appendProperties(appendQualifiedName(dst, p.Table), p.Properties)
	}
	u := s.(*UndropTable)
	dst = appendQualifiedName(append(dst, "UNDROP TABLE "...), u.Table)
	if u.As != u.Table.Name {
		dst = appendIdentifier(append(dst, " AS "...), u.As)
	}
	return appendProperties(dst, u.Properties)
}

func appendDroppedKeyspace(dst []byte, s Statement) []byte {
	if p, ok := s.(*PurgeKeyspace); ok {
		dst = appendIf(append(dst, "PURGE KEYSPACE "...), p.IfExists, "IF EXISTS ")
		return appendProperties(appendIdentifier(dst, p.Keyspace), p.Properties)
	}
	u := s.(*UndropKeyspace)
	dst = appendIdentifier(append(dst, "UNDROP KEYSPACE "...), u.Keyspace)
	if u.As != u.Keyspace {
		dst = appendIdentifier(append(dst, " AS "...), u.As)
	}
	return appendProperties(dst, u.Properties)
}

func appendTimeout(dst []byte, timeout Term) []byte {
	if timeout == nil {
		return dst
	}
	return appendTerm(append(dst, " USING TIMEOUT "...), timeout)
}

// appendBetween appends subject BETWEEN low AND high.
func appendBetween(dst []byte, r *BetweenRelation) []byte {
	var low, high Term
	switch l := r.Low.(type) {
	case *ColumnRelation:
		dst = appendIdentifier(dst, l.Column)
		low, high = l.Value, r.High.(*ColumnRelation).Value
	case *TokenRelation:
		dst = appendNames(append(dst, "token"...), l.Columns)
		low, high = l.Value, r.High.(*TokenRelation).Value
	case *TupleRelation:
		dst = appendNames(dst, l.Columns)
		low, high = l.Value, r.High.(*TupleRelation).Value
	}
	dst = appendTerm(append(dst, " BETWEEN "...), low)
	return appendTerm(append(dst, " AND "...), high)
}

func appendOr(dst []byte, r *OrRelation) []byte {
	dst = appendList(append(dst, '('), r.Alternatives, " OR ", func(dst []byte, all *[]Relation) []byte {
		return appendList(dst, *all, " AND ", func(dst []byte, r *Relation) []byte { return appendRelation(dst, *r) })
	})
	return append(dst, ')')
}
