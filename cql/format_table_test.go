package cql

func appendTableStatement(dst []byte, s Statement) []byte {
	switch s := s.(type) {
	case *CreateKeyspace:
		dst = appendIf(append(dst, "CREATE KEYSPACE "...), s.IfNotExists, "IF NOT EXISTS ")
		return appendProperties(appendIdentifier(dst, s.Keyspace), s.Properties)
	case *AlterKeyspace:
		dst = appendIf(append(dst, "ALTER KEYSPACE "...), s.IfExists, "IF EXISTS ")
		return appendProperties(appendIdentifier(dst, s.Keyspace), s.Properties)
	case *DropKeyspace:
		dst = appendIf(append(dst, "DROP KEYSPACE "...), s.IfExists, "IF EXISTS ")
		return appendIdentifier(dst, s.Keyspace)
	case *CreateTable:
		return appendCreateTable(dst, s)
	case *AlterTable:
		dst = appendIf(append(dst, "ALTER TABLE "...), s.IfExists, "IF EXISTS ")
		return appendAlterTable(appendQualifiedName(dst, s.Table), s.Action)
	case *DropTable:
		dst = appendIf(append(dst, "DROP TABLE "...), s.IfExists, "IF EXISTS ")
		return appendQualifiedName(dst, s.Table)
	case *CreateMaterializedView:
		return appendCreateView(dst, s)
	case *AlterMaterializedView:
		dst = appendIf(append(dst, "ALTER MATERIALIZED VIEW "...), s.IfExists, "IF EXISTS ")
		return appendTableOptions(appendQualifiedName(dst, s.View), s.Options)
	case *DropMaterializedView:
		dst = appendIf(append(dst, "DROP MATERIALIZED VIEW "...), s.IfExists, "IF EXISTS ")
		return appendQualifiedName(dst, s.View)
	}
	return append(dst, '?')
}

func appendProperties(dst []byte, properties Properties) []byte {
	return appendTableOptions(dst, TableOptions{Properties: properties})
}

// appendTableOptions appends WITH …: the clustering order first, as DESCRIBE does.
func appendTableOptions(dst []byte, o TableOptions) []byte {
	word := " WITH "
	if len(o.ClusteringOrder) > 0 {
		dst = append(append(dst, word...), "CLUSTERING ORDER BY ("...)
		dst = append(appendList(dst, o.ClusteringOrder, ", ", appendClusteringOrder), ')')
		word = " AND "
	}
	if o.CompactStorage {
		dst = append(append(dst, word...), "COMPACT STORAGE"...)
		word = " AND "
	}
	return appendPropertyList(dst, word, o.Properties)
}

// appendPropertyList appends the properties, the first after word and the others after AND.
func appendPropertyList(dst []byte, word string, all Properties) []byte {
	for _, p := range all {
		dst = appendIdentifier(append(dst, word...), p.Name)
		dst = appendTerm(append(dst, " = "...), p.Value)
		word = " AND "
	}
	return dst
}

func appendClusteringOrder(dst []byte, o *ClusteringOrder) []byte {
	dst = appendIdentifier(dst, o.Column)
	if o.Descending {
		return append(dst, " DESC"...)
	}
	return append(dst, " ASC"...)
}

func appendCreateTable(dst []byte, s *CreateTable) []byte {
	dst = appendIf(append(dst, "CREATE TABLE "...), s.IfNotExists, "IF NOT EXISTS ")
	dst = append(appendQualifiedName(dst, s.Table), " ("...)
	dst = appendList(dst, s.Columns, ", ", appendColumn)
	for i := range s.PrimaryKeys {
		dst = appendIf(dst, i > 0 || len(s.Columns) > 0, ", ")
		dst = appendPrimaryKey(dst, &s.PrimaryKeys[i])
	}
	return appendTableOptions(append(dst, ')'), s.Options)
}

func appendColumn(dst []byte, c *ColumnDefinition) []byte {
	dst = append(appendIdentifier(dst, c.Name), ' ')
	dst = appendType(dst, &c.Type)
	dst = appendIf(dst, c.Static, " STATIC")
	dst = appendIf(dst, c.NotNull, " NOT NULL")
	dst = appendMask(dst, c.Mask)
	dst = appendColumnConstraints(dst, c)
	return appendIf(dst, c.PrimaryKey, " PRIMARY KEY")
}

func appendMask(dst []byte, m *Mask) []byte {
	switch {
	case m == nil:
		return dst
	case m.Default:
		return append(dst, " MASKED WITH DEFAULT"...)
	}
	dst = appendFunctionName(append(dst, " MASKED WITH "...), m.Function)
	return append(appendTerms(append(dst, '('), m.Args), ')')
}

func appendPrimaryKey(dst []byte, k *PrimaryKey) []byte {
	dst = append(dst, "PRIMARY KEY ("...)
	if len(k.Partition) == 1 {
		dst = appendIdentifier(dst, k.Partition[0])
	} else {
		dst = appendNames(dst, k.Partition)
	}
	for _, c := range k.Clustering {
		dst = appendIdentifier(append(dst, ", "...), c)
	}
	return append(dst, ')')
}

func appendAlterTable(dst []byte, action AlterTableAction) []byte {
	switch a := action.(type) {
	case *AddColumns:
		dst = appendIf(append(dst, " ADD "...), a.IfNotExists, "IF NOT EXISTS ")
		if len(a.Columns) == 1 {
			return appendColumn(dst, &a.Columns[0])
		}
		return append(appendList(append(dst, '('), a.Columns, ", ", appendColumn), ')')
	case *DropColumns:
		dst = appendIf(append(dst, " DROP "...), a.IfExists, "IF EXISTS ")
		if len(a.Columns) == 1 {
			dst = appendIdentifier(dst, a.Columns[0])
		} else {
			dst = appendNames(dst, a.Columns)
		}
		if a.Timestamp != nil {
			dst = appendLiteral(append(dst, " USING TIMESTAMP "...), a.Timestamp)
		}
		return dst
	case *UndropColumns:
		return appendNames(append(dst, " UNDROP "...), a.Columns)
	case *PurgeColumns:
		return appendNames(append(dst, " PURGE "...), a.Columns)
	case *RenameColumns:
		dst = appendIf(append(dst, " RENAME "...), a.IfExists, "IF EXISTS ")
		return appendList(dst, a.Renames, " AND ", appendRename)
	case *AlterColumnType:
		dst = appendIf(append(dst, " ALTER "...), a.IfExists, "IF EXISTS ")
		return appendType(append(appendIdentifier(dst, a.Column), " TYPE "...), &a.Type)
	case *AlterColumnMask:
		dst = appendIf(append(dst, " ALTER "...), a.IfExists, "IF EXISTS ")
		dst = appendIf(appendIdentifier(dst, a.Column), a.Mask == nil, " DROP MASKED")
		return appendMask(dst, a.Mask)
	case *AlterColumnConstraints:
		dst = appendIf(append(dst, " ALTER "...), a.IfExists, "IF EXISTS ")
		dst = appendIdentifier(dst, a.Column)
		if len(a.Constraints) == 0 {
			return append(dst, " DROP CHECK"...)
		}
		return AppendConstraints(append(dst, " CHECK "...), a.Constraints)
	case *AlterColumnDefault:
		dst = appendIf(append(dst, " ALTER "...), a.IfExists, "IF EXISTS ")
		dst = appendIdentifier(dst, a.Column)
		if a.Default == nil {
			return append(dst, " DROP DEFAULT"...)
		}
		return appendTerm(append(dst, " SET DEFAULT "...), a.Default)
	case *DropCompactStorage:
		return append(dst, " DROP COMPACT STORAGE"...)
	case *SetTableOptions:
		return appendTableOptions(dst, a.Options)
	}
	return append(dst, '?')
}

func appendRename(dst []byte, r *Rename) []byte {
	return appendIdentifier(append(appendIdentifier(dst, r.From), " TO "...), r.To)
}

func appendCreateView(dst []byte, s *CreateMaterializedView) []byte {
	dst = appendIf(append(dst, "CREATE MATERIALIZED VIEW "...), s.IfNotExists, "IF NOT EXISTS ")
	dst = append(appendQualifiedName(dst, s.View), " AS SELECT "...)
	dst = append(appendSelectColumns(dst, s.Columns), " FROM "...)
	dst = append(appendWhere(appendQualifiedName(dst, s.Table), s.Where), ' ')
	return appendTableOptions(appendPrimaryKey(dst, &s.PrimaryKey), s.Options)
}
