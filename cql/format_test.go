package cql

// Format returns the statement as canonical CQL text on one line: keywords in upper case, names quoted only if
// necessary, and defaults omitted. Parsing the text gives an equal statement.
func Format(s Statement) string { return string(AppendFormat(nil, s)) }

// AppendFormat appends the result of Format.
func AppendFormat(dst []byte, s Statement) []byte {
	switch s := s.(type) {
	case *Select:
		return appendSelect(dst, s)
	case *Explain:
		return appendExplain(dst, s)
	case *Insert:
		return appendInsert(dst, s)
	case *InsertJSON:
		return appendInsertJSON(dst, s)
	case *Update:
		return appendUpdate(dst, s)
	case *Delete:
		return appendDelete(dst, s)
	case *Batch:
		return appendBatch(dst, s)
	case *Use:
		return appendIdentifier(append(dst, "USE "...), s.Keyspace)
	case *Truncate:
		return appendTimeout(appendQualifiedName(append(dst, "TRUNCATE "...), s.Table), s.Timeout)
	case *CreateTableLike:
		return appendCreateTableLike(dst, s)
	case *CommentOn:
		return appendCommentOn(dst, s)
	case *UndropTable, *PurgeTable:
		return appendDroppedTable(dst, s)
	case *UndropKeyspace, *PurgeKeyspace:
		return appendDroppedKeyspace(dst, s)
	case *Describe:
		return appendDescribe(dst, s)
	case *CreateKeyspace, *AlterKeyspace, *DropKeyspace, *CreateTable, *AlterTable, *DropTable,
		*CreateMaterializedView, *AlterMaterializedView, *DropMaterializedView:
		return appendTableStatement(dst, s)
	case *CreateType, *AlterType, *DropType, *CreateIndex, *DropIndex, *CreateFunction, *DropFunction,
		*CreateAggregate, *DropAggregate, *CreateTrigger, *DropTrigger:
		return appendSchemaStatement(dst, s)
	}
	return appendRoleStatement(dst, s)
}

func appendName(dst []byte, name *string) []byte { return appendIdentifier(dst, *name) }

// appendNames appends (a, b).
func appendNames(dst []byte, names []string) []byte {
	return append(appendList(append(dst, '('), names, ", ", appendName), ')')
}
