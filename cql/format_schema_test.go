package cql

import "strings"

func appendSchemaStatement(dst []byte, s Statement) []byte {
	switch s := s.(type) {
	case *CreateType:
		dst = appendIf(append(dst, "CREATE TYPE "...), s.IfNotExists, "IF NOT EXISTS ")
		dst = append(appendTypeName(dst, s.Type), " ("...)
		return append(appendList(dst, s.Fields, ", ", appendField), ')')
	case *AlterType:
		dst = appendIf(append(dst, "ALTER TYPE "...), s.IfExists, "IF EXISTS ")
		return appendAlterType(appendTypeName(dst, s.Type), s.Action)
	case *DropType:
		return appendTypeName(appendIf(append(dst, "DROP TYPE "...), s.IfExists, "IF EXISTS "), s.Type)
	case *CreateIndex:
		return appendCreateIndex(dst, s)
	case *DropIndex:
		return appendQualifiedName(appendIf(append(dst, "DROP INDEX "...), s.IfExists, "IF EXISTS "), s.Index)
	case *CreateFunction:
		return appendCreateFunction(dst, s)
	case *DropFunction:
		dst = appendFunctionName(appendIf(append(dst, "DROP FUNCTION "...), s.IfExists, "IF EXISTS "), s.Name)
		return appendArgumentTypes(dst, s.Args, s.HasArgs)
	case *CreateAggregate:
		return appendCreateAggregate(dst, s)
	case *DropAggregate:
		dst = appendFunctionName(appendIf(append(dst, "DROP AGGREGATE "...), s.IfExists, "IF EXISTS "), s.Name)
		return appendArgumentTypes(dst, s.Args, s.HasArgs)
	case *CreateTrigger:
		dst = appendIf(append(dst, "CREATE TRIGGER "...), s.IfNotExists, "IF NOT EXISTS ")
		dst = appendQualifiedName(append(appendIdentifier(dst, s.Name), " ON "...), s.Table)
		return appendString(append(dst, " USING "...), s.Using)
	case *DropTrigger:
		dst = appendIf(append(dst, "DROP TRIGGER "...), s.IfExists, "IF EXISTS ")
		return appendQualifiedName(append(appendIdentifier(dst, s.Name), " ON "...), s.Table)
	}
	return append(dst, '?')
}

func appendField(dst []byte, f *FieldDefinition) []byte {
	return appendType(append(appendIdentifier(dst, f.Name), ' '), &f.Type)
}

func appendAlterType(dst []byte, action AlterTypeAction) []byte {
	switch a := action.(type) {
	case *AddField:
		return appendField(appendIf(append(dst, " ADD "...), a.IfNotExists, "IF NOT EXISTS "), &a.Field)
	case *RenameFields:
		dst = appendIf(append(dst, " RENAME "...), a.IfExists, "IF EXISTS ")
		return appendList(dst, a.Renames, " AND ", appendRename)
	case *AlterFieldType:
		dst = append(appendIdentifier(append(dst, " ALTER "...), a.Field), " TYPE "...)
		return appendType(dst, &a.Type)
	}
	return append(dst, '?')
}

func appendCreateIndex(dst []byte, s *CreateIndex) []byte {
	dst = appendIf(append(dst, "CREATE "...), s.Custom, "CUSTOM ")
	dst = appendIf(append(dst, "INDEX "...), s.IfNotExists, "IF NOT EXISTS ")
	if s.Name != "" {
		dst = append(appendIdentifier(dst, s.Name), ' ')
	}
	dst = append(appendQualifiedName(append(dst, "ON "...), s.Table), " ("...)
	dst = append(appendList(dst, s.Targets, ", ", appendIndexTarget), ')')
	if s.Using != nil {
		dst = appendString(append(dst, " USING "...), *s.Using)
	}
	return appendProperties(dst, s.Properties)
}

func appendIndexTarget(dst []byte, t *IndexTarget) []byte {
	if t.Kind == TargetColumn {
		return appendIdentifier(dst, t.Column)
	}
	dst = append(append(dst, strings.ToLower(t.Kind.String())...), '(')
	return append(appendIdentifier(dst, t.Column), ')')
}

func appendCreateFunction(dst []byte, s *CreateFunction) []byte {
	dst = appendIf(append(dst, "CREATE "...), s.OrReplace, "OR REPLACE ")
	dst = appendIf(append(dst, "FUNCTION "...), s.IfNotExists, "IF NOT EXISTS ")
	dst = append(appendFunctionName(dst, s.Name), '(')
	dst = append(appendList(dst, s.Args, ", ", appendField), ')')
	if s.CalledOnNullInput {
		dst = append(dst, " CALLED"...)
	} else {
		dst = append(dst, " RETURNS NULL"...)
	}
	dst = appendType(append(dst, " ON NULL INPUT RETURNS "...), &s.Returns)
	dst = append(append(dst, " LANGUAGE "...), s.Language...)
	return appendBody(append(dst, " AS "...), s.Body)
}

// appendBody appends the code of a function between dollars, because code contains many quotes.
func appendBody(dst []byte, body string) []byte {
	if strings.Contains(body, "$") {
		return appendString(dst, body)
	}
	return append(append(append(dst, "$$"...), body...), "$$"...)
}

func appendArgumentTypes(dst []byte, args []TypeExpr, has bool) []byte {
	if !has {
		return dst
	}
	return append(appendList(append(dst, '('), args, ", ", appendType), ')')
}

func appendCreateAggregate(dst []byte, s *CreateAggregate) []byte {
	dst = appendIf(append(dst, "CREATE "...), s.OrReplace, "OR REPLACE ")
	dst = appendIf(append(dst, "AGGREGATE "...), s.IfNotExists, "IF NOT EXISTS ")
	dst = appendArgumentTypes(appendFunctionName(dst, s.Name), s.Args, true)
	dst = appendFunctionName(append(dst, " SFUNC "...), QualifiedName{Name: s.StateFunction})
	dst = appendType(append(dst, " STYPE "...), &s.StateType)
	if s.FinalFunction != "" {
		dst = appendFunctionName(append(dst, " FINALFUNC "...), QualifiedName{Name: s.FinalFunction})
	}
	if s.Initial != nil {
		dst = appendTerm(append(dst, " INITCOND "...), s.Initial)
	}
	return dst
}

func appendDescribe(dst []byte, s *Describe) []byte {
	dst = append(dst, "DESCRIBE "...)
	//exhaustive:enforce
	switch s.Kind {
	case DescribeCluster:
		dst = append(dst, "CLUSTER"...)
	case DescribeSchema:
		dst = append(appendIf(dst, s.Full, "FULL "), "SCHEMA"...)
	case DescribeKeyspaces:
		dst = append(dst, "KEYSPACES"...)
	case DescribeKeyspace:
		dst = append(appendIf(dst, s.Only, "ONLY "), "KEYSPACE"...)
		if s.Name.Name != "" {
			dst = appendIdentifier(append(dst, ' '), s.Name.Name)
		}
	case DescribeTables:
		dst = append(dst, "TABLES"...)
	case DescribeTable:
		dst = appendQualifiedName(append(dst, "TABLE "...), s.Name)
	case DescribeIndex:
		dst = appendQualifiedName(append(dst, "INDEX "...), s.Name)
	case DescribeMaterializedView:
		dst = appendQualifiedName(append(dst, "MATERIALIZED VIEW "...), s.Name)
	case DescribeTypes:
		dst = append(dst, "TYPES"...)
	case DescribeType:
		dst = appendTypeName(append(dst, "TYPE "...), s.Name)
	case DescribeFunctions:
		dst = append(dst, "FUNCTIONS"...)
	case DescribeFunction:
		dst = appendFunctionName(append(dst, "FUNCTION "...), s.Name)
	case DescribeAggregates:
		dst = append(dst, "AGGREGATES"...)
	case DescribeAggregate:
		dst = appendFunctionName(append(dst, "AGGREGATE "...), s.Name)
	case DescribeGeneric:
		dst = appendDescribedName(dst, s.Name)
	case DescribeInvalid:
		dst = append(dst, '?')
	}
	return appendIf(dst, s.Internals, " WITH INTERNALS")
}

// appendDescribedName appends a name, in quotes if it would be parsed as a keyword of DESCRIBE.
func appendDescribedName(dst []byte, n QualifiedName) []byte {
	if n.Keyspace == "" {
		switch n.Name {
		case "cluster", "keyspaces", "tables", "types", "type", "functions", "function", "aggregates", "aggregate",
			"only":
			return appendQuoted(dst, n.Name, '"')
		}
	}
	return appendQualifiedName(dst, n)
}
