package cql

func appendSelect(dst []byte, s *Select) []byte {
	dst = append(dst, "SELECT "...)
	dst = appendIf(dst, s.JSON, "JSON ")
	dst = appendIf(dst, s.Distinct, "DISTINCT ")
	dst = appendSelectColumns(dst, s.Columns)
	if s.Fragments {
		dst = append(appendQualifiedName(append(dst, " FROM MUTATION_FRAGMENTS("...), s.Table), ')')
	} else {
		dst = appendQualifiedName(append(dst, " FROM "...), s.Table)
	}
	dst = appendWhere(dst, s.Where)
	if len(s.GroupBy) > 0 {
		dst = appendSelectors(append(dst, " GROUP BY "...), s.GroupBy)
	}
	if len(s.OrderBy) > 0 {
		dst = appendList(append(dst, " ORDER BY "...), s.OrderBy, ", ", appendOrdering)
	}
	if s.PerPartitionLimit != nil {
		dst = appendTerm(append(dst, " PER PARTITION LIMIT "...), s.PerPartitionLimit)
	}
	if s.Limit != nil {
		dst = appendTerm(append(dst, " LIMIT "...), s.Limit)
	}
	if s.Offset != nil {
		dst = appendTerm(append(dst, " OFFSET "...), s.Offset)
	}
	return appendTimeout(appendIf(dst, s.AllowFiltering, " ALLOW FILTERING"), s.Timeout)
}

func appendOrdering(dst []byte, o *Ordering) []byte {
	dst = appendIdentifier(dst, o.Column)
	if o.ANN != nil {
		dst = appendTerm(append(dst, " ANN OF "...), o.ANN)
	}
	return appendIf(dst, o.Descending, " DESC")
}

func appendInsert(dst []byte, s *Insert) []byte {
	dst = appendQualifiedName(append(dst, "INSERT INTO "...), s.Table)
	dst = appendNames(append(dst, ' '), s.Columns)
	dst = append(appendTerms(append(dst, " VALUES ("...), s.Values), ')')
	dst = appendIf(dst, s.IfNotExists, " IF NOT EXISTS")
	return appendUsing(dst, s.Using)
}

func appendInsertJSON(dst []byte, s *InsertJSON) []byte {
	dst = appendQualifiedName(append(dst, "INSERT INTO "...), s.Table)
	dst = appendTerm(append(dst, " JSON "...), s.Value)
	dst = appendIf(dst, s.DefaultUnset, " DEFAULT UNSET")
	dst = appendIf(dst, s.IfNotExists, " IF NOT EXISTS")
	return appendUsing(dst, s.Using)
}

func appendUpdate(dst []byte, s *Update) []byte {
	dst = appendQualifiedName(append(dst, "UPDATE "...), s.Table)
	dst = appendUsing(dst, s.Using)
	dst = appendList(append(dst, " SET "...), s.Assignments, ", ", appendAssignment)
	dst = appendWhere(dst, s.Where)
	return appendConditions(dst, s.IfExists, s.Conditions)
}

func appendDelete(dst []byte, s *Delete) []byte {
	dst = append(dst, "DELETE "...)
	if len(s.Targets) > 0 {
		dst = append(appendList(dst, s.Targets, ", ", appendDeleteTarget), ' ')
	}
	dst = appendQualifiedName(append(dst, "FROM "...), s.Table)
	dst = appendUsing(dst, s.Using)
	dst = appendWhere(dst, s.Where)
	return appendConditions(dst, s.IfExists, s.Conditions)
}

func appendDeleteTarget(dst []byte, t *DeleteTarget) []byte {
	return appendPart(dst, t.Column, t.Key, t.Field)
}

// appendPart appends a column, an element of one or a field of one.
func appendPart(dst []byte, column string, key Term, field string) []byte {
	dst = appendIdentifier(dst, column)
	if key != nil {
		dst = append(appendTerm(append(dst, '['), key), ']')
	}
	if field != "" {
		dst = appendIdentifier(append(dst, '.'), field)
	}
	return dst
}

func appendBatch(dst []byte, s *Batch) []byte {
	dst = append(dst, "BEGIN "...)
	if kind := s.Kind.String(); kind != "" {
		dst = append(append(dst, kind...), ' ')
	}
	dst = appendUsing(append(dst, "BATCH"...), s.Using)
	for _, statement := range s.Statements {
		dst = append(AppendFormat(append(dst, ' '), statement), ';')
	}
	return append(dst, " APPLY BATCH"...)
}

// appendUsing appends the timestamp, the TTL and the timeout in this order, except that markers keep their order.
func appendUsing(dst []byte, u Using) []byte {
	options := [3]usingOption{{"TIMESTAMP ", u.Timestamp}, {"TTL ", u.TTL}, {"TIMEOUT ", u.Timeout}}
	for i := range options {
		for j := range i {
			if options[i].marker() >= 0 && options[i].marker() < options[j].marker() {
				options[i], options[j] = options[j], options[i]
			}
		}
	}
	word := " USING "
	for _, o := range options {
		if o.value != nil {
			dst = appendTerm(append(append(dst, word...), o.name...), o.value)
			word = " AND "
		}
	}
	return dst
}

// usingOption is one option of USING.
type usingOption struct {
	name  string
	value Term // nil means that the option is not set
}

// marker returns the position of the option's marker among those of the statement, or -1.
func (o usingOption) marker() int {
	if m, ok := o.value.(*BindMarker); ok {
		return m.Index
	}
	return -1
}

func appendAssignment(dst []byte, a *Assignment) []byte {
	switch a := (*a).(type) {
	case *SetColumn:
		return appendTerm(append(appendIdentifier(dst, a.Column), " = "...), a.Value)
	case *AddToColumn:
		return appendTerm(append(appendIdentifier(dst, a.Column), " += "...), a.Value)
	case *SubtractFromColumn:
		return appendTerm(append(appendIdentifier(dst, a.Column), " -= "...), a.Value)
	case *PrependToColumn:
		dst = appendTerm(append(appendIdentifier(dst, a.Column), " = "...), a.Value)
		return appendIdentifier(append(dst, " + "...), a.Column)
	case *SetElement:
		return appendTerm(append(appendPart(dst, a.Column, a.Key, ""), " = "...), a.Value)
	case *SetField:
		return appendTerm(append(appendPart(dst, a.Column, nil, a.Field), " = "...), a.Value)
	}
	return append(dst, '?')
}

func appendConditions(dst []byte, exists bool, conditions []Condition) []byte {
	dst = appendIf(dst, exists, " IF EXISTS")
	if len(conditions) == 0 {
		return dst
	}
	return appendList(append(dst, " IF "...), conditions, " AND ", func(dst []byte, c *Condition) []byte {
		dst = appendPart(dst, c.Column, c.Key, c.Field)
		if c.In != nil {
			return appendIn(dst, *c.In)
		}
		return appendComparison(dst, c.Operator, c.Value)
	})
}

// appendIn appends IN (…), IN ?.
func appendIn(dst []byte, in InList) []byte {
	dst = append(dst, " IN "...)
	if in.Marker != nil {
		return appendMarker(dst, in.Marker)
	}
	return append(appendTerms(append(dst, '('), in.Values), ')')
}

func appendWhere(dst []byte, where []Relation) []byte {
	if len(where) == 0 {
		return dst
	}
	return appendList(append(dst, " WHERE "...), where, " AND ", func(dst []byte, r *Relation) []byte {
		return appendRelation(dst, *r)
	})
}

func appendRelation(dst []byte, r Relation) []byte {
	switch r := r.(type) {
	case *ColumnRelation:
		return appendComparison(appendIdentifier(dst, r.Column), r.Operator, r.Value)
	case *InRelation:
		return appendIn(appendIf(appendIdentifier(dst, r.Column), r.Not, " NOT"), r.In)
	case *NotNullRelation:
		return append(appendIdentifier(dst, r.Column), " IS NOT NULL"...)
	case *ElementRelation:
		return appendComparison(appendPart(dst, r.Column, r.Key, ""), r.Operator, r.Value)
	case *TokenRelation:
		return appendComparison(appendNames(append(dst, "token"...), r.Columns), r.Operator, r.Value)
	case *TupleRelation:
		return appendComparison(appendNames(dst, r.Columns), r.Operator, r.Value)
	case *TupleInRelation:
		return appendIn(appendIf(appendNames(dst, r.Columns), r.Not, " NOT"), r.In)
	case *BetweenRelation:
		return appendBetween(dst, r)
	case *OrRelation:
		return appendOr(dst, r)
	case *IndexRelation:
		dst = appendIdentifier(append(dst, "expr("...), r.Index.Name)
		return append(appendTerm(append(dst, ", "...), r.Value), ')')
	}
	return append(dst, '?')
}

func appendExplain(dst []byte, s *Explain) []byte {
	dst = append(dst, explainWord+" "...)
	dst = appendIf(dst, s.Analyze, analyzeWord+" ")
	return appendSelect(dst, s.Select)
}
