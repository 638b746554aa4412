package repetition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Production is a way to repeat a part of a statement.
type Production struct {
	// Rule is the rule of CqlParser.g4 or CqlLexer.g4 that repeats the part.
	Rule string
	// Name describes the part, and is unique within the rule.
	Name string
	// Setup returns the definitions that a statement of n repetitions needs, besides Schema. nil means none.
	Setup func(n int) []string
	// Text returns the statement with n repetitions.
	// Text is called with any n. The statement may be invalid: the layers must also refuse it in linear time.
	Text func(n int) string
}

// String returns the rule and the name.
func (p *Production) String() string { return p.Rule + ": " + p.Name }

// Schema returns the definitions that all productions need, for a keyspace in use.
func Schema() []string {
	return []string{
		"CREATE TYPE u (a int, b text)",
		"CREATE TABLE t (k int PRIMARY KEY, v int, d double, x text, b blob, i varint, l list<int>, s set<int>, m " +
			"map<int, int>, " +
			"y u, z frozen<list<frozen<u>>>, n frozen<map<int, int>>)",
		"CREATE TABLE c (k int, c int, d int, v int, st int STATIC, PRIMARY KEY (k, c, d))",
		"CREATE TABLE p (k int, l int, v int, PRIMARY KEY ((k, l)))",
		"CREATE TABLE counts (k int PRIMARY KEY, n counter)",
	}
}

// All returns the productions.
func All() []Production {
	// The order is not fixed, because some productions come from the iteration of a map. Names identify them.
	return slices.Concat(selectors(), terms(), relations(), modifications(), definitions(), roles(), lexemes())
}

// times returns n repetitions of part, separated by separator. In part, # is replaced by the number of the repetition.
func times(n int, part, separator string) string {
	numbered := strings.Contains(part, "#")
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(separator)
		}
		if numbered {
			b.WriteString(strings.ReplaceAll(part, "#", strconv.Itoa(i)))
		} else {
			b.WriteString(part)
		}
	}
	return b.String()
}

// of returns a production whose statement is format with %s replaced by the repeated part.
func of(rule, name, format, part, separator string) Production {
	return Production{Rule: rule, Name: name, Text: func(n int) string {
		return fmt.Sprintf(format,
			times(n, part, separator))
	}}
}

// around returns a production whose statement nests inner.
func around(rule, name, format, before, inner, after string) Production {
	return Production{Rule: rule, Name: name, Text: func(n int) string {
		return fmt.Sprintf(format, strings.Repeat(before, n)+inner+strings.Repeat(after, n))
	}}
}

// with returns a production with a setup of one statement, which repeats a part as well.
func (p Production) with(format, part, separator string) Production {
	p.Setup = func(n int) []string { return []string{fmt.Sprintf(format, times(n, part, separator))} }
	return p
}

// selectors returns the productions of the select clause, GROUP BY and ORDER BY.
func selectors() []Production {
	all := []Production{
		of("root", "semicolons", "SELECT * FROM t WHERE k = 1%s", ";", ""),
		around("selectorUnary", "negations", "SELECT %s FROM t", "- ", "v", ""),
		around("simpleSelector", "type hints", "SELECT %s FROM t", "(int)", "v", ""),
		around("selector", "parentheses to the right", "SELECT %s FROM t", "(1 + ", "v", ")"),
		around("selector", "parentheses to the left", "SELECT %s FROM t", "(", "v", " + 1)"),
		around("simpleSelector", "nested calls", "SELECT %s FROM t", "abs(", "v", ")"),
		around("simpleSelector", "nested casts", "SELECT %s FROM t", "CAST(CAST(", "v", " AS text) AS int)"),
		around("simpleSelector", "nested lists", "SELECT to_json(%s) FROM t", "[", "v", "]"),
		around("simpleSelector", "nested sets", "SELECT to_json(%s) FROM t", "{", "v", "}"),
		around("simpleSelector", "nested tuples", "SELECT to_json(%s) FROM t", "(1, ", "v", ")"),
		around("simpleSelector", "nested maps", "SELECT to_json(%s) FROM t", "{v: ", "v", "}"),
		of("selectorModifier", "fields", "SELECT y%s FROM t", ".a", ""),
		of("selectorModifier", "elements", "SELECT m%s FROM t", "[0]", ""),
		of("selectorModifier", "slices", "SELECT m%s FROM t", "[0..1]", ""),
		of("selectorModifier", "metadata of elements", "SELECT writetime(m%s) FROM t", "[0]", ""),
		of("groupBy", "columns", "SELECT k FROM c GROUP BY %s", "k", ", "),
		of("groupBy", "sums", "SELECT k FROM c GROUP BY k%s", "+ 1", " "),
		of("orderBy", "columns", "SELECT * FROM c WHERE k = 1 ORDER BY %s", "c", ", "),
		of("orderBy", "other columns", "SELECT * FROM t ORDER BY %s", "v", ", "),
		of("orderBy", "near columns", "SELECT * FROM t ORDER BY %s", "v ANN OF [1]", ", "),
	}
	for name, part := range map[string]string{
		"columns": "v", "aliases": "v AS a#", "calls": "abs(v)", "constants": "(int)1", "casts": "CAST(v AS text)",
		"rows counted": "count(*)",
		"aggregates":   "max(v)", "metadata": "writetime(v)", "elements": "m[#]", "slices": "m[#..#]", "fields": "y.a",
		"strings": "(text)'a'",
		"markers": "(int)?", "named markers": "(int):m#", "sums": "v + #", "tuples": "(v, v)", "lists": "[v]",
		"maps": "(map<int, int>){v: v}", "types": "(u){a: v}", "unknown columns": "w#",
	} {
		all = append(all, of("selectColumns", name, "SELECT %s FROM t", part, ", "))
	}
	all = append(all,
		of("selectColumns", "columns as JSON", "SELECT JSON %s FROM t", "v AS a#", ", "),
		of("selectColumns", "distinct keys", "SELECT DISTINCT %s FROM t", "k", ", "),
		of("selectColumns", "columns of a wide table", "SELECT %s FROM wide", "c#", ", ").with(wideTable, "c# int",
			", "),
		of("selectColumns", "columns of a view", "CREATE MATERIALIZED VIEW w AS SELECT %s FROM t WHERE k IS NOT "+
			"NULL PRIMARY KEY (k)", "k", ", "))
	for _, op := range []string{"+", "-", "*", "/", "%"} {
		rule := "selectorProduct"
		if op == "+" || op == "-" {
			rule = "selector"
		}
		op := strings.ReplaceAll(op, "%", "%%")
		all = append(all,
			of(rule, "columns and "+op, "SELECT %s FROM t", "v", " "+strings.ReplaceAll(op, "%%", "%")+" "),
			of(rule, "constants and "+op, "SELECT %s FROM t", "1", " "+strings.ReplaceAll(op, "%%", "%")+" "))
	}
	for name, part := range map[string]string{"columns": "v", "constants": "1", "calls": "abs(v)", "sums": "v + 1",
		"markers": "?"} {
		all = append(all,
			of("selectors", "arguments of a function: "+name, "SELECT abs(%s) FROM t", part, ", "),
			of("selectors", "arguments of to_json: "+name, "SELECT to_json([%s]) FROM t", part, ", "),
			of("selectors", "tuple of "+name, "SELECT to_json((%s)) FROM t", part, ", "),
			of("selectors", "list of "+name, "SELECT (list<int>)[%s] FROM t", part, ", "),
			of("selectors", "set of "+name, "SELECT (set<int>){%s} FROM t", part, ", "),
			of("selectors", "parentheses of "+name, "SELECT (%s) FROM t", part, " + "))
	}
	return append(all,
		of("simpleSelector", "entries of a map", "SELECT (map<int, int>){%s} FROM t", "#: v", ", "),
		of("simpleSelector", "fields of a type", "SELECT (wide){%s} FROM t", "f#: v",
			", ").with("CREATE TYPE wide (%s)", "f# int", ", "),
		of("selectors", "vector", "SELECT (vector<float, 8>)[%s] FROM t", "1.0", ", "),
		of("selectors", "similarity", "SELECT similarity_cosine([%s], [1]) FROM t", "1.0", ", "))
}

// wideTable is the format of a table whose other columns are repeated, too.
const wideTable = "CREATE TABLE wide (k int PRIMARY KEY, %s)"

// terms returns the productions of values.
func terms() []Production {
	var all []Production
	for _, op := range []string{"+", "-", "*", "/", "%"} {
		rule := "product"
		if op == "+" || op == "-" {
			rule = "term"
		}
		for name, part := range map[string]string{"constants": "1", "markers": "?", "texts": "'a'"} {
			all = append(all,
				of(rule, "WHERE, "+name+" and "+op, "SELECT * FROM t WHERE k = %s", part, " "+op+" "),
				of(rule, "SET, "+name+" and "+op, "UPDATE t SET v = %s WHERE k = 1", part, " "+op+" "))
		}
	}
	for name, part := range map[string]string{
		"constants": "#", "strings": "'a'", "markers": "?", "named markers": ":m#", "nulls": "null", "calls": "abs(1)",
		"sums": "1 + #", "lists": "[1]",
		"hints": "(int)1", "floats": "1.5",
	} {
		all = append(all,
			of("terms", "list of "+name, "UPDATE t SET l = [%s] WHERE k = 1", part, ", "),
			of("terms", "set of "+name, "UPDATE t SET s = {%s} WHERE k = 1", part, ", "),
			of("terms", "tuple of "+name, "INSERT INTO t (k, v) VALUES (1, (%s))", part, ", "),
			of("terms", "arguments, "+name, "INSERT INTO t (k, v) VALUES (1, abs(%s))", part, ", "),
			of("terms", "IN, "+name, "SELECT * FROM t WHERE k IN (%s)", part, ", "),
			of("terms", "NOT IN, "+name, "SELECT * FROM t WHERE v NOT IN (%s) ALLOW FILTERING", part, ", "),
			of("terms", "clustering IN, "+name, "SELECT * FROM c WHERE k = 1 AND c IN (%s)", part, ", "),
			of("terms", "filter IN, "+name, "SELECT * FROM t WHERE v IN (%s) ALLOW FILTERING", part, ", "))
	}
	return append(all,
		of("simpleTerm", "entries of a map", "UPDATE t SET m = {%s} WHERE k = 1", "#: 1", ", "),
		of("simpleTerm", "equal entries of a map", "UPDATE t SET m = {%s} WHERE k = 1", "1: 1", ", "),
		of("simpleTerm", "markers of a map", "UPDATE t SET m = {%s} WHERE k = 1", "?: ?", ", "),
		of("simpleTerm", "fields of a type", "UPDATE ty SET f = {%s} WHERE k = 1", "f#: 1", ", ").typed(),
		of("simpleTerm", "equal fields of a type", "UPDATE ty SET f = {%s} WHERE k = 1", "f1: 1", ", ").typed(),
		of("simpleTerm", "texts as a type", "UPDATE ty SET f = {%s} WHERE k = 1", "'f#': 1", ", ").typed(),
		of("terms", "elements of a vector", "UPDATE ve SET f = [%s] WHERE k = 1", "1.5", ", ").vector(),
		of("terms", "elements of a tuple", "UPDATE tu SET f = (%s) WHERE k = 1", "1", ", ").tuple(),
		around("simpleTerm", "negations", "SELECT * FROM t WHERE k = %s", "- ", "1", ""),
		around("simpleTerm", "type hints", "SELECT * FROM t WHERE k = %s", "(int)", "1", ""),
		around("simpleTerm", "nested calls", "SELECT * FROM t WHERE k = %s", "abs(", "1", ")"),
		around("simpleTerm", "nested lists", "UPDATE t SET l = %s WHERE k = 1", "[", "1", "]"),
		around("simpleTerm", "nested tuples", "UPDATE t SET v = %s WHERE k = 1", "(1, ", "1", ")"),
		around("simpleTerm", "nested maps", "UPDATE t SET m = %s WHERE k = 1", "{1: ", "1", "}"),
		around("term", "parentheses to the right", "SELECT * FROM t WHERE k = %s", "(1 + ", "1", ")"),
		around("term", "parentheses to the left", "SELECT * FROM t WHERE k = %s", "(", "1", " + 1)"),
		of("assignmentValue", "sum before a column", "UPDATE t SET l = %s + l WHERE k = 1", "[1]", " + "),
		of("assignmentValue", "sum after a column", "UPDATE t SET l = l + %s WHERE k = 1", "[1]", " + "))
}

// typed adds the setup of a table ty with a column f of a type with n fields.
func (p Production) typed() Production {
	p.Setup = func(n int) []string {
		return []string{"CREATE TYPE wide (" + times(n, "f# int", ", ") + ")",
			"CREATE TABLE ty (k int PRIMARY KEY, f frozen<wide>)"}
	}
	return p
}

// vector adds the setup of a table ve with a column f of a vector with n elements.
func (p Production) vector() Production {
	p.Setup = func(n int) []string {
		return []string{fmt.Sprintf("CREATE TABLE ve (k int PRIMARY KEY, f vector<float, %d>)", n)}
	}
	return p
}

// tuple adds the setup of a table tu with a column f of a tuple with n elements.
func (p Production) tuple() Production {
	return p.with("CREATE TABLE tu (k int PRIMARY KEY, f tuple<%s>)", "int", ", ")
}

// relations returns the productions of WHERE and IF: relations, tuples of columns, and conditions.
func relations() []Production {
	var all []Production
	for name, part := range map[string]string{
		"equal": "k = 1", "columns": "v = #", "ranges": "v > #", "unequal": "v != #", "IN": "v IN (#, 1)",
		"NOT IN": "v NOT IN (#)", "contains": "s CONTAINS #",
		"not contains": "s NOT CONTAINS #", "contains key": "m CONTAINS KEY #", "elements": "m[#] = 1",
		"between": "v BETWEEN # AND 5", "like": "x LIKE 'a#%%'",
		"clustering": "c > #", "tokens": "token(k) > #", "tuples": "(c, d) > (1, #)", "sums": "v = 1 + #",
		"groups":          "(v = # OR v = 1)",
		"unknown columns": "w# = 1", "not null": "v IS NOT NULL", "markers": "v = ?",
	} {
		// Clustering columns are in table c. CONTAINS and other words have the letter, too.
		table := "t"
		if strings.Contains(part, "c") && !strings.Contains(part, "s ") && !strings.Contains(part, "CONTAINS") {
			table = "c"
		}
		part = strings.ReplaceAll(part, "%%", "%")
		all = append(all,
			of("whereClause", "AND, "+name, "SELECT * FROM "+table+" WHERE %s ALLOW FILTERING", part, " AND "),
			of("whereClause", "OR, "+name, "SELECT * FROM "+table+" WHERE %s ALLOW FILTERING", part, " OR "),
			of("relation", "group, "+name, "SELECT * FROM "+table+" WHERE (%s) ALLOW FILTERING", part, " OR "),
			of("whereClause", "UPDATE, "+name, "UPDATE "+table+" SET v = 1 WHERE %s", part, " AND "))
	}
	return append(all,
		of("whereClause", "expressions", "SELECT * FROM t WHERE %s", "expr(ix, 'a')", " AND "),
		of("whereClause", "columns of a key", "SELECT * FROM keyed WHERE %s", "c# = 1", " AND ").keyed(),
		of("whereClause", "columns of a partition key", "SELECT * FROM keyed WHERE %s", "c# IN (1, 2)",
			" AND ").partitioned(),
		of("whereClause", "clustering columns", "SELECT * FROM keyed WHERE k = 1 AND %s", "c# = 1", " AND ").keyed(),
		of("whereClause", "columns of a wide table", "SELECT * FROM wide WHERE %s ALLOW FILTERING", "c# = 1",
			" AND ").with(wideTable, "c# int", ", "),
		of("whereClause", "relations of a view", "CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE %s PRIMARY "+
			"KEY (k)", "k IS NOT NULL", " AND "),
		around("relation", "nested groups", "SELECT * FROM t WHERE %s ALLOW FILTERING", "(v = 1 AND ", "v = 2", ")"),
		of("columnNames", "tuple", "SELECT * FROM c WHERE k = 1 AND (%s) = (1)", "c", ", "),
		of("columnNames", "token", "SELECT * FROM c WHERE token(%s) = 1", "k", ", "),
		Production{Rule: "columnNames", Name: "tuple of all clustering columns", Text: func(n int) string {
			return "SELECT * FROM keyed WHERE k = 1 AND (" + times(n, "c#", ", ") + ") > (" + times(n, "#", ", ") + ")"
		}}.keyed(),
		Production{Rule: "columnNames", Name: "token of all columns", Text: func(n int) string {
			return "SELECT * FROM keyed WHERE token(" + times(n, "c#", ", ") + ") > 5"
		}}.partitioned(),
		of("tupleInValues", "tuples", "SELECT * FROM c WHERE k = 1 AND (c, d) IN (%s)", "(1, #)", ", "),
		of("tupleInValues", "tuples of markers", "SELECT * FROM c WHERE k = 1 AND (c, d) IN (%s)", "(?, ?)", ", "),
		of("tupleInValues", "markers", "SELECT * FROM c WHERE k = 1 AND (c, d) IN (%s)", "?", ", "),
		of("ifClause", "conditions", "UPDATE t SET v = 1 WHERE k = 1 IF %s", "v != #", " AND "),
		of("ifClause", "equal conditions", "UPDATE t SET v = 1 WHERE k = 1 IF %s", "v = 1", " AND "),
		of("ifClause", "elements", "UPDATE t SET v = 1 WHERE k = 1 IF %s", "m[#] = 1", " AND "),
		of("ifClause", "columns", "UPDATE wide SET c0 = 1 WHERE k = 1 IF %s", "c# = 1", " AND ").with(wideTable,
			"c# int", ", "),
		of("terms", "IN of a condition", "UPDATE t SET v = 1 WHERE k = 1 IF v IN (%s)", "#", ", "))
}

// keyed adds the setup of a table keyed with n clustering columns.
func (p Production) keyed() Production {
	p.Setup = func(n int) []string {
		return []string{"CREATE TABLE keyed (k int, " + times(n, "c# int", ", ") + ", PRIMARY KEY (k, " +
			times(n, "c#", ", ") + "))"}
	}
	return p
}

// partitioned adds the setup of a table keyed with n partition key columns.
func (p Production) partitioned() Production {
	p.Setup = func(n int) []string {
		return []string{"CREATE TABLE keyed (" + times(n, "c# int", ", ") + ", PRIMARY KEY ((" + times(n, "c#", ", ") +
			")))"}
	}
	return p
}

// modifications returns the productions of INSERT, UPDATE, DELETE and BATCH.
func modifications() []Production {
	// wide adds a table that has as many columns as the statement names.
	wide := func(p Production) Production { return p.with(wideTable, "c# int", ", ") }
	// pairs repeats the names of columns and their values.
	pairs := func(rule, name, table, column, value string) Production {
		return Production{Rule: rule, Name: name, Text: func(n int) string {
			return "INSERT INTO " + table + " (k, " + times(n, column, ", ") + ") VALUES (1, " +
				times(n, value, ", ") + ")"
		}}
	}
	return []Production{
		wide(pairs("columnNames", "INSERT", "wide", "c#", "#")),
		wide(pairs("columnNames", "INSERT of markers", "wide", "c#", "?")),
		wide(pairs("columnNames", "INSERT of named markers", "wide", "c#", ":c#")),
		pairs("columnNames", "INSERT of one column", "t", "v", "1"),
		pairs("columnNames", "INSERT of unknown columns", "t", "w#", "1"),
		wide(of("insert", "JSON", "INSERT INTO wide JSON '{\"k\": 1, %s}'", `"c#": 1`, ", ")),
		of("insert", "JSON list", "INSERT INTO t JSON '{\"k\": 1, \"l\": [%s]}'", "#", ", "),
		of("insert", "JSON map", "INSERT INTO t JSON '{\"k\": 1, \"m\": {%s}}'", `"#": 1`, ", "),
		of("insert", "JSON nested", "INSERT INTO t JSON '{\"k\": 1, \"l\": %s}'", "[", ""),
		of("insert", "JSON text", "INSERT INTO t JSON '{\"k\": 1, \"x\": \"%s\"}'", `\\u0041`, ""),
		wide(of("update", "columns", "UPDATE wide SET %s WHERE k = 1", "c# = #", ", ")),
		wide(of("update", "markers", "UPDATE wide SET %s WHERE k = 1", "c# = ?", ", ")),
		of("update", "elements of a map", "UPDATE t SET %s WHERE k = 1", "m[#] = 1", ", "),
		of("update", "elements of a list", "UPDATE t SET %s WHERE k = 1", "l[#] = 1", ", "),
		of("update", "fields", "UPDATE t SET %s WHERE k = 1", "y.a = #", ", "),
		of("update", "additions", "UPDATE t SET %s WHERE k = 1", "l = l + [#]", ", "),
		of("update", "additions of maps", "UPDATE t SET %s WHERE k = 1", "m += {#: 1}", ", "),
		of("update", "removals", "UPDATE t SET %s WHERE k = 1", "s -= {#}", ", "),
		of("update", "counters", "UPDATE counts SET %s WHERE k = 1", "n = n + 1", ", "),
		of("update", "one column", "UPDATE t SET %s WHERE k = 1", "v = 1", ", "),
		wide(of("delete", "columns", "DELETE %s FROM wide WHERE k = 1", "c#", ", ")),
		of("delete", "elements", "DELETE %s FROM t WHERE k = 1", "m[#]", ", "),
		of("delete", "fields", "DELETE %s FROM t WHERE k = 1", "y.a", ", "),
		of("delete", "elements of a list", "DELETE %s FROM t WHERE k = 1", "l[#]", ", "),
		of("usingClause", "TTL", "INSERT INTO t (k, v) VALUES (1, 1) USING %s", "TTL 1", " AND "),
		of("usingClause", "TIMESTAMP", "UPDATE t USING %s SET v = 1 WHERE k = 1", "TIMESTAMP #", " AND "),
		of("usingClause", "TIMEOUT", "UPDATE t USING %s SET v = 1 WHERE k = 1", "TIMEOUT 1s", " AND "),
		of("deleteUsing", "TIMEOUT", "DELETE FROM t USING %s WHERE k = 1", "TIMEOUT 1s", " AND "),
		of("deleteUsing", "TIMESTAMP", "DELETE FROM t USING %s WHERE k = 1", "TIMESTAMP 1", " AND "),
		of("batch", "inserts of one partition", "BEGIN BATCH %s APPLY BATCH",
			"INSERT INTO c (k, c, d) VALUES (1, #, 1)", "; "),
		of("batch", "inserts of one row", "BEGIN BATCH %s APPLY BATCH", "INSERT INTO t (k, v) VALUES (1, 1)", "; "),
		of("batch", "inserts", "BEGIN BATCH %s APPLY BATCH", "INSERT INTO t (k, v) VALUES (#, 1)", "; "),
		of("batch", "unlogged updates", "BEGIN UNLOGGED BATCH %s APPLY BATCH", "UPDATE t SET v = # WHERE k = #", " "),
		of("batch", "deletes", "BEGIN BATCH %s APPLY BATCH", "DELETE FROM t WHERE k = #", " "),
		of("batch", "range deletes", "BEGIN BATCH %s APPLY BATCH", "DELETE FROM c WHERE k = 1 AND c > #", " "),
		of("batch", "counters", "BEGIN COUNTER BATCH %s APPLY BATCH", "UPDATE counts SET n = n + 1 WHERE k = #", " "),
		of("batch", "one counter", "BEGIN COUNTER BATCH %s APPLY BATCH", "UPDATE counts SET n = n + 1 WHERE k = 1",
			" "),
		of("batch", "markers", "BEGIN BATCH %s APPLY BATCH", "INSERT INTO t (k, v) VALUES (?, ?)", "; "),
		of("batch", "conditions", "BEGIN BATCH %s APPLY BATCH",
			"UPDATE c SET v = 1 WHERE k = 1 AND c = # AND d = 1 IF v = 1", " "),
		of("batch", "conditions of one row", "BEGIN BATCH %s APPLY BATCH",
			"UPDATE c SET v = 1 WHERE k = 1 AND c = 1 AND d = 1 IF v = 1", " "),
		of("batch", "elements of lists", "BEGIN BATCH %s APPLY BATCH", "UPDATE t SET l = l + [#] WHERE k = 1", " "),
		of("batch", "unknown tables", "BEGIN BATCH %s APPLY BATCH", "INSERT INTO w# (k) VALUES (1)", " "),
	}
}

// definitions returns the productions of statements that change the schema, except roles.
func definitions() []Production {
	return slices.Concat(newTables(), changedTables(), otherDefinitions())
}

// newTables returns the productions of CREATE TABLE.
func newTables() []Production {
	return []Production{
		of("createTable", "columns", "CREATE TABLE n (k int PRIMARY KEY, %s)", "c# int", ", "),
		of("createTable", "equal columns", "CREATE TABLE n (k int PRIMARY KEY, %s)", "c int", ", "),
		of("createTable", "static columns", "CREATE TABLE n (k int, c int, %s, PRIMARY KEY (k, c))", "c# int STATIC",
			", "),
		of("createTable", "counters", "CREATE TABLE n (k int PRIMARY KEY, %s)", "c# counter", ", "),
		of("createTable", "columns of types", "CREATE TABLE n (k int PRIMARY KEY, %s)", "c# frozen<u>", ", "),
		of("createTable", "columns with checks", "CREATE TABLE n (k int PRIMARY KEY, %s)", "c# int CHECK c# > 1", ", "),
		of("createTable", "columns with defaults", "CREATE TABLE n (k int PRIMARY KEY, %s)", "c# int DEFAULT 5", ", "),
		of("createTable", "commas", "CREATE TABLE n (k int PRIMARY KEY%s)", ",", ""),
		of("createTable", "primary keys", "CREATE TABLE n (k int, %s)", "PRIMARY KEY (k)", ", "),
		of("createTable", "options", "CREATE TABLE n (k int PRIMARY KEY) WITH %s", "gc_grace_seconds = #", " AND "),
		of("createTable", "unknown options", "CREATE TABLE n (k int PRIMARY KEY) WITH %s", "o# = 1", " AND "),
		of("createTable", "compact storage", "CREATE TABLE n (k int PRIMARY KEY) WITH %s", "COMPACT STORAGE", " AND "),
		of("createTable", "LIKE", "CREATE TABLE n LIKE t WITH %s", "INDEXES", " AND "),
		of("createTable", "LIKE with options", "CREATE TABLE n LIKE t WITH %s", "o# = 1", " AND "),
		of("createTable", "LIKE a wide table", "CREATE TABLE n LIKE wide WITH comment = '%s'", "a", "").with(wideTable,
			"c# int", ", "),
		of("createTable", "compact columns", "CREATE TABLE n (k int PRIMARY KEY, %s) WITH COMPACT STORAGE", "c# int",
			", "),
		{Rule: "primaryKey", Name: "clustering columns", Text: func(n int) string {
			return "CREATE TABLE n (k int, " + times(n, "c# int", ", ") + ", PRIMARY KEY (k, " + times(n, "c#", ", ") +
				"))"
		}},
		{Rule: "partitionKey", Name: "columns", Text: func(n int) string {
			return "CREATE TABLE n (" + times(n, "c# int", ", ") + ", PRIMARY KEY ((" + times(n, "c#", ", ") + ")))"
		}},
		{Rule: "tableOption", Name: "clustering order", Text: func(n int) string {
			return "CREATE TABLE n (k int, " + times(n, "c# int", ", ") + ", PRIMARY KEY (k, " + times(n, "c#", ", ") +
				")) WITH CLUSTERING ORDER BY (" + times(n, "c# DESC", ", ") + ")"
		}},
		of("primaryKey", "equal columns", "CREATE TABLE n (k int, c int, PRIMARY KEY (k, %s))", "c", ", "),
		of("tableOption", "equal clustering orders", "CREATE TABLE n (k int, c int, PRIMARY KEY (k, c)) WITH "+
			"CLUSTERING ORDER BY (%s)", "c ASC", ", "),
		of("tableOption", "repeated clustering orders", "CREATE TABLE n (k int, c int, PRIMARY KEY (k, c)) WITH %s",
			"CLUSTERING ORDER BY (c ASC)", " AND "),
		of("columnConstraints", "comparisons", "CREATE TABLE n (k int PRIMARY KEY, v int CHECK %s)", "v > #", " AND "),
		of("columnConstraints", "unequal", "CREATE TABLE n (k int PRIMARY KEY, v int CHECK %s)", "v != #", " AND "),
		of("columnConstraints", "functions", "CREATE TABLE n (k int PRIMARY KEY, v text CHECK %s)", "length(v) > #",
			" AND "),
		of("columnConstraints", "not null", "CREATE TABLE n (k int PRIMARY KEY, v text CHECK %s)", "NOT NULL", " AND "),
		of("terms", "arguments of a constraint", "CREATE TABLE n (k int PRIMARY KEY, v text CHECK regexp(%s) = 'a')",
			"v", ", "),
		of("terms", "arguments of a mask", "CREATE TABLE n (k int PRIMARY KEY, v text MASKED WITH mask_inner(%s))",
			"1", ", "),
		of("createTable", "masked columns", "CREATE TABLE n (k int PRIMARY KEY, %s)", "c# int MASKED WITH DEFAULT",
			", "),
	}
}

// changedTables returns the productions of ALTER TABLE, and of the options of tables and keyspaces.
func changedTables() []Production {
	return []Production{
		of("term", "default", "CREATE TABLE n (k int PRIMARY KEY, v int DEFAULT %s)", "1", " + "),
		of("propertyValue", "replication", "CREATE KEYSPACE n WITH replication = {'class': "+
			"'NetworkTopologyStrategy', %s}", "'dc#': 1", ", "),
		of("propertyValue", "compaction", "CREATE TABLE n (k int PRIMARY KEY) WITH compaction = {'class': "+
			"'LeveledCompactionStrategy', %s}", "'o#': '1'", ", "),
		of("propertyValue", "caching", "CREATE TABLE n (k int PRIMARY KEY) WITH caching = {%s}", "'o#': '1'", ", "),
		of("propertyValue", "equal compression", "CREATE TABLE n (k int PRIMARY KEY) WITH compression = {%s}",
			"'enabled': 'true'", ", "),
		of("propertyValue", "extensions", "CREATE TABLE n (k int PRIMARY KEY) WITH extensions = {%s}", "'e#': 0x00",
			", "),
		of("properties", "keyspace", "CREATE KEYSPACE n WITH %s", "durable_writes = true", " AND "),
		of("properties", "unknown", "ALTER KEYSPACE ks WITH %s", "o# = true", " AND "),
		of("properties", "ALTER TABLE", "ALTER TABLE t WITH %s", "o# = true", " AND "),
		of("properties", "ALTER TABLE, equal", "ALTER TABLE t WITH %s", "comment = 'a'", " AND "),
		of("alterTable", "ADD", "ALTER TABLE t ADD (%s)", "c# int", ", "),
		of("alterTable", "ADD equal columns", "ALTER TABLE t ADD (%s)", "c int", ", "),
		of("alterTable", "ADD IF NOT EXISTS", "ALTER TABLE t ADD IF NOT EXISTS (%s)", "v int", ", "),
		of("alterTable", "ADD to a wide table", "ALTER TABLE wide ADD (%s)", "d# int", ", ").with(wideTable, "c# int",
			", "),
		of("alterTable", "ADD dropped columns", "ALTER TABLE wide ADD (%s)", "c# int", ", ").dropped(),
		of("alterTable", "DROP", "ALTER TABLE wide DROP (%s)", "c#", ", ").with(wideTable, "c# int", ", "),
		of("alterTable", "DROP again", "ALTER TABLE wide DROP (%s)", "c#", ", ").droppedTwice(),
		of("alterTable", "DROP of unknown columns", "ALTER TABLE t DROP IF EXISTS (%s)", "w#", ", "),
		of("alterTable", "RENAME", "ALTER TABLE keyed RENAME %s", "c# TO d#", " AND ").keyed(),
		of("alterTable", "RENAME back", "ALTER TABLE c RENAME %s", "c TO c", " AND "),
		of("columnConstraints", "ALTER TABLE", "ALTER TABLE t ALTER v CHECK %s", "v > #", " AND "),
	}
}

// otherDefinitions returns the productions of types, indexes, views, functions and aggregates.
func otherDefinitions() []Production {
	return []Production{
		of("createType", "fields", "CREATE TYPE n (%s)", "f# int", ", "),
		of("createType", "equal fields", "CREATE TYPE n (%s)", "f int", ", "),
		of("createType", "fields of types", "CREATE TYPE n (%s)", "f# frozen<u>", ", "),
		of("createType", "commas", "CREATE TYPE n (f int%s)", ",", ""),
		of("alterType", "RENAME", "ALTER TYPE wide RENAME %s", "f# TO g#", " AND ").with("CREATE TYPE wide (%s)",
			"f# int", ", "),
		of("createIndex", "columns", "CREATE INDEX n ON t (%s)", "v", ", "),
		of("createIndex", "columns of a custom index", "CREATE CUSTOM INDEX n ON t (%s) USING 'sai'", "v", ", "),
		of("properties", "index", "CREATE CUSTOM INDEX n ON t (v) USING 'sai' WITH %s", "OPTIONS = {'a': 'b'}",
			" AND "),
		of("propertyValue", "index", "CREATE CUSTOM INDEX n ON t (v) USING 'sai' WITH OPTIONS = {%s}", "'o#': 'b'",
			", "),
		of("createMaterializedView", "options", "CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k IS NOT NULL "+
			"PRIMARY KEY (k) WITH %s",
			"gc_grace_seconds = #", " AND "),
		of("selectColumns", "all columns of a view", "CREATE MATERIALIZED VIEW w AS SELECT k, %s FROM wide WHERE k "+
			"IS NOT NULL PRIMARY KEY (k)",
			"c#", ", ").with(wideTable, "c# int", ", "),
		of("properties", "view", "ALTER MATERIALIZED VIEW w WITH %s", "comment = 'a'", " AND "),
		of("primaryKey", "view", "CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k IS NOT NULL PRIMARY KEY (k, "+
			"%s)", "v", ", "),
		of("createFunction", "arguments", "CREATE FUNCTION n (%s) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS "+
			"'return 1'", "a# int", ", "),
		of("createFunction", "equal arguments", "CREATE FUNCTION n (%s) CALLED ON NULL INPUT RETURNS int LANGUAGE "+
			"lua AS 'return 1'", "a int", ", "),
		of("createFunction", "body", "CREATE FUNCTION n (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS "+
			"'return 1%s'", " ", ""),
		of("argumentTypes", "aggregate", "CREATE AGGREGATE n (%s) SFUNC f STYPE int", "int", ", "),
		of("argumentTypes", "function", "DROP FUNCTION n (%s)", "int", ", "),
		of("dataType", "tuple", "CREATE TABLE n (k int PRIMARY KEY, v tuple<%s>)", "int", ", "),
		around("dataType", "frozen", "CREATE TABLE n (k int PRIMARY KEY, v %s)", "frozen<", "u", ">"),
		around("dataType", "lists", "CREATE TABLE n (k int PRIMARY KEY, v %s)", "frozen<list<", "int", ">>"),
		around("dataType", "vectors", "CREATE TABLE n (k int PRIMARY KEY, v %s)", "vector<", "int", ", 2>"),
		around("dataType", "class names", "CREATE TABLE n (k int PRIMARY KEY, v '%s')", "ReversedType(", "Int32Type",
			")"),
		of("dataType", "class names of a tuple", "CREATE TABLE n (k int PRIMARY KEY, v 'TupleType(%s)')", "Int32Type",
			","),
		of("term", "INITCOND", "CREATE AGGREGATE n (int) SFUNC f STYPE int INITCOND %s", "1", " + "),
	}
}

// dropped adds the setup of a table wide whose n columns were dropped.
func (p Production) dropped() Production {
	p.Setup = func(n int) []string {
		return []string{fmt.Sprintf(wideTable, times(n, "c# int", ", ")), "ALTER TABLE wide DROP (" +
			times(n, "c#", ", ") + ")"}
	}
	return p
}

// droppedTwice adds the setup of a table wide whose n columns were dropped and added again.
func (p Production) droppedTwice() Production {
	before := p.dropped().Setup
	p.Setup = func(n int) []string { return append(before(n), "ALTER TABLE wide ADD ("+times(n, "c# int", ", ")+")") }
	return p
}

// roles returns the productions of statements about roles, permissions and identities. Passwords are among them,
// because the redaction for logs examines these statements.
func roles() []Production {
	return []Production{
		of("createRole", "options", "CREATE ROLE r WITH %s", "SUPERUSER = true", " AND "),
		of("createRole", "passwords", "CREATE ROLE r WITH %s", "PASSWORD = 'secret#'", " AND "),
		of("alterRole", "options", "ALTER ROLE r WITH %s", "LOGIN = true", " AND "),
		of("roleOption", "options", "CREATE ROLE r WITH OPTIONS = {%s}", "'o#': 'a'", ", "),
		of("stringSet", "datacenters", "CREATE ROLE r WITH ACCESS TO DATACENTERS {%s}", "'dc#'", ", "),
		of("stringSet", "groups", "CREATE ROLE r WITH ACCESS FROM CIDRS {%s}", "'g#'", ", "),
		of("stringSet", "equal datacenters", "ALTER ROLE r WITH ACCESS TO DATACENTERS {%s}", "'dc'", ", "),
		of("stringSet", "groups of a changed role", "ALTER ROLE r WITH ACCESS FROM CIDRS {%s}", "'g#'", ", "),
		of("createRole", "datacenters", "CREATE ROLE n WITH %s", "ACCESS TO DATACENTERS {'dc#'}", " AND "),
		of("createRole", "all options", "CREATE ROLE n WITH %s",
			"LOGIN = true AND SUPERUSER = false AND ACCESS FROM ALL CIDRS", " AND "),
		of("alterRole", "hashed passwords", "ALTER ROLE r WITH %s", "HASHED PASSWORD = '$2a$#'", " AND "),
		of("alterRole", "generated passwords", "ALTER ROLE r WITH %s", "GENERATED PASSWORD", " AND "),
		of("roleOption", "equal options", "CREATE ROLE n WITH OPTIONS = {%s}", "'o1': 'a'", ", "),
		of("roleOption", "length of an option", "CREATE ROLE n WITH OPTIONS = {'o1': '%s'}", "a", ""),
		of("roleOption", "options of a changed role", "ALTER ROLE r WITH OPTIONS = {%s}", "'o#': #", ", "),
		of("permissions", "GRANT", "GRANT %s ON t TO r", "SELECT", ", "),
		of("permissions", "GRANT of several", "GRANT %s ON t TO r",
			"SELECT PERMISSION, MODIFY, ALTER, DROP, AUTHORIZE", ", "),
		of("permissions", "GRANT of others", "GRANT %s ON t TO r", "EXECUTE", ", "),
		of("permissions", "GRANT on a keyspace", "GRANT %s ON KEYSPACE ks TO r", "CREATE, SELECT", ", "),
		of("permissions", "GRANT on a role", "GRANT %s ON ROLE r TO member", "ALTER, DESCRIBE", ", "),
		of("permissions", "REVOKE", "REVOKE %s ON t FROM r", "SELECT", ", "),
		of("permissions", "REVOKE of several", "REVOKE %s ON ALL KEYSPACES FROM r", "SELECT, MODIFY PERMISSION", ", "),
		of("permissions", "LIST", "LIST %s ON t OF r", "SELECT", ", "),
		of("permissions", "LIST of several", "LIST %s OF r NORECURSIVE", "SELECT, MODIFY", ", "),
		of("argumentTypes", "GRANT", "GRANT EXECUTE ON FUNCTION f(%s) TO r", "int", ", "),
		of("argumentTypes", "REVOKE", "REVOKE EXECUTE ON FUNCTION f(%s) FROM r", "list<int>", ", "),
		of("IDENT", "role", "CREATE ROLE %s", "a", ""),
		of("QUOTED_NAME", "role", `GRANT "%s" TO r`, "a", ""),
		of("STRING_LITERAL", "user", "CREATE USER n WITH PASSWORD '%s' NOSUPERUSER", "a", ""),
		of("STRING_LITERAL", "role", "GRANT r TO '%s'", "a", ""),
		of("STRING_LITERAL", "identity", "ADD IDENTITY '%s' TO ROLE 'r'", "a", ""),
		of("STRING_LITERAL", "name of a bean", "GRANT EXECUTE ON MBEAN '%s' TO r", "a", ""),
		of("root", "statements about roles", "%s", "GRANT r TO member", "; "),
	}
}

// lexemes returns the productions of the lexer: long tokens, many tokens of one kind, and tokens that never end.
func lexemes() []Production {
	return []Production{
		of("WHITESPACE", "spaces", "SELECT * FROM t %s", " ", ""),
		of("WHITESPACE", "lines", "SELECT * FROM t %s", "\n", ""),
		of("LINE_COMMENT", "comments", "SELECT * FROM t %s", "-- a\n", ""),
		of("LINE_COMMENT", "length", "SELECT * FROM t -- %s\n", "a", ""),
		of("COMMENT", "comments", "SELECT * FROM t %s", "/* a */", ""),
		of("COMMENT", "length", "SELECT * FROM t /* %s */", "*", ""),
		of("STRING_LITERAL", "length", "INSERT INTO t (k, x) VALUES (1, '%s')", "a", ""),
		of("STRING_LITERAL", "quotes", "INSERT INTO t (k, x) VALUES (1, '%s')", "''", ""),
		of("STRING_LITERAL", "lines", "INSERT INTO t (k, x) VALUES (1, '%s')", "\n", ""),
		of("STRING_LITERAL", "dollars", "INSERT INTO t (k, x) VALUES (1, $$%s$$)", "$a", ""),
		of("STRING_LITERAL", "letters", "INSERT INTO t (k, x) VALUES (1, '%s')", "\u20ac", ""),
		of("STRING_LITERAL", "selected", "SELECT (text)'%s' FROM t", "a", ""),
		of("STRING_LITERAL", "pattern", "SELECT * FROM t WHERE x LIKE '%s' ALLOW FILTERING", "%a", ""),
		of("STRING_LITERAL", "comment of a table", "CREATE TABLE n (k int PRIMARY KEY) WITH comment = '%s'", "a", ""),
		of("STRING_LITERAL", "comment", "COMMENT ON TABLE t IS '%s'", "a", ""),
		of("STRING_LITERAL", "timestamp", "SELECT (timestamp)'2020-01-01%s' FROM t", " ", ""),
		of("STRING_LITERAL", "password", "CREATE ROLE r WITH PASSWORD = '%s'", "a", ""),
		of("INTEGER", "digits of an int", "INSERT INTO t (k, v) VALUES (1, %s)", "1", ""),
		of("INTEGER", "digits of a varint", "INSERT INTO t (k, i) VALUES (1, %s)", "1", ""),
		of("INTEGER", "selected digits", "SELECT (varint)%s FROM t", "1", ""),
		of("FLOAT", "digits", "INSERT INTO t (k, d) VALUES (1, 1.%s)", "1", ""),
		of("FLOAT", "exponent", "INSERT INTO t (k, d) VALUES (1, 1e%s)", "1", ""),
		of("FLOAT", "selected digits", "SELECT (decimal)1.%s FROM t", "1", ""),
		of("HEXNUMBER", "digits", "INSERT INTO t (k, b) VALUES (1, 0x%s)", "00", ""),
		of("DURATION", "units", "SELECT (duration)%s FROM t", "1d", ""),
		of("DURATION", "digits", "SELECT (duration)%sd FROM t", "1", ""),
		of("ISO_DURATION", "digits", "SELECT (duration)P%sD FROM t", "1", ""),
		of("IDENT", "column", "SELECT %s FROM t", "a", ""),
		of("IDENT", "table", "CREATE TABLE %s (k int PRIMARY KEY)", "a", ""),
		of("IDENT", "alias", "SELECT v AS %s FROM t", "a", ""),
		of("QUOTED_NAME", "column", `SELECT "%s" FROM t`, "a", ""),
		of("QUOTED_NAME", "quotes", `CREATE TABLE n (k int PRIMARY KEY, "%s" int)`, `""`, ""),
		of("QUOTED_NAME", "letters", `SELECT v AS "%s" FROM t`, "\u20ac", ""),
		of("UNTERMINATED_STRING", "quotes", "SELECT '%s' FROM t '", "''", ""),
		of("UNTERMINATED_STRING", "strings", "SELECT %s ' FROM t", "'a'", ", "),
		of("UNTERMINATED_DOLLAR", "dollars", "SELECT $$%s FROM t", "$a", ""),
		of("UNTERMINATED_NAME", "length", `SELECT "%s FROM t`, "a", ""),
		of("UNTERMINATED_LINE", "length", "SELECT --%s", "a", ""),
		of("UNTERMINATED_COMMENT", "stars", "SELECT /*%s", "*", ""),
		of("UNTERMINATED_COMMENT", "comments", "SELECT %s", "/* ", ""),
		of("UNEXPECTED_CHARACTER", "characters", "SELECT %s FROM t", "\u20ac", ""),
		of("UNEXPECTED_CHARACTER", "dollars", "SELECT %s FROM t", "$ ", ""),
		of("root", "words", "%s", "a", " "),
		of("root", "statements", "%s", "SELECT * FROM t", "; "),
		of("root", "statements with a password", "%s", "CREATE ROLE r WITH PASSWORD = 'secret#'", "; "),
	}
}
