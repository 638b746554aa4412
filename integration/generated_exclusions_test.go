//go:build integration

package integration

import "testing"

// TestDocumentedDifferencesAreNarrow checks that an exclusion matches the example in docs/differences.md, and no
// statement that is like it but has an answer which the fault does not explain.
func TestDocumentedDifferencesAreNarrow(t *testing.T) {
	const none, one, two = "p int\n(0 rows)\n", "p int\n1\n(1 rows)\n", "p int\n1\n2\n(2 rows)\n"
	const swapped = "p int\n2\n1\n(2 rows)\n"
	const refusedState = "PROTOCOL_ERROR: Invalid value for the paging state\n"
	const serialRead = "INVALID: SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time\n"
	const failure = "READ_FAILURE: x\n"
	for _, x := range []struct {
		table            []string // statements that were executed before
		input, want, got string
		options          []string
		name             string // of the exclusion; empty means none
	}{
		{[]string{"CREATE TABLE t (p0 int, v0 text, PRIMARY KEY ((p0)));", sasi("v0")},
			"SELECT p0 FROM t WHERE v0 = '';", none, one, nil, "SASI misses empty texts"},
		{[]string{sasi("v0")}, "? 0x\nSELECT p0 FROM t WHERE v0 = ?;", none, one, nil, "SASI misses empty texts"},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 = 'a';", none, one, nil, ""},
		{[]string{sai("v0")}, "SELECT p0 FROM t WHERE v0 = '';", none, one, nil, ""},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 = '';", one, none, nil, ""},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 = 1 AND p0 > 5 ALLOW FILTERING;", two, one, nil,
			"SASI does not evaluate other restrictions"},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 = 1 AND v1 > 5 ALLOW FILTERING;", two, one, nil, ""},
		{[]string{sai("v0")}, "SELECT p0 FROM t WHERE v0 = 1 AND p0 > 5 ALLOW FILTERING;", two, one, nil, ""},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 = 1 AND l CONTAINS 5 ALLOW FILTERING;", failure, none, nil,
			"SASI fails beside CONTAINS"},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 CONTAINS 5 ALLOW FILTERING;",
			"SERVER_ERROR: java.lang.IllegalArgumentException: unknown operator: CONTAINS\n", none, nil,
			"SASI does not evaluate CONTAINS"},
		{[]string{sai("v0")}, "SELECT p0 FROM t WHERE v0 CONTAINS 5 ALLOW FILTERING;",
			"SERVER_ERROR: java.lang.IllegalArgumentException: unknown operator: CONTAINS\n", none, nil, ""},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 = 1 ORDER BY e ANN OF [1, 2] LIMIT 1 ALLOW FILTERING;",
			"SERVER_ERROR: java.lang.AssertionError\n", one, nil, "ANN OF fails beside SASI or a legacy index"},
		{[]string{sai("v0")}, "SELECT p0 FROM t WHERE v0 = 1 ORDER BY e ANN OF [1, 2] LIMIT 1 ALLOW FILTERING;",
			"SERVER_ERROR: java.lang.AssertionError\n", one, nil, ""},
		{nil, "INSERT INTO t (p0, l) VALUES (1, [(t_u)1]);", "INVALID: value (ks.t_u)1 is not of type int\n",
			"INVALID: value (t_u)1 is not of type int\n", nil, "names of types in hints"},
		{nil, "INSERT INTO t (p0, l) VALUES (1, [(t_u)1]);", "INVALID: value (ks.t_u)1 is not of type int\n",
			"INVALID: value (t_u)1 is not of type text\n", nil, ""},
		{nil, "BEGIN BATCH DELETE FROM t WHERE p0 = 0 IF v0 < null; UPDATE t SET v0 = 1 WHERE p0 = 0 IF v0 = 1; " +
			"APPLY BATCH;",
			"[applied] boolean\nfalse\n(1 rows)\n", "INVALID: Invalid comparison with null for operator \"<\"\n", nil,
			"conditions on one column in a random order"},
		{nil, "BEGIN BATCH DELETE FROM t WHERE p0 = 0 IF v0 < null; UPDATE t SET v0 = 1 WHERE p0 = 0 IF v1 = 1; " +
			"APPLY BATCH;",
			"[applied] boolean\nfalse\n(1 rows)\n", "INVALID: Invalid comparison with null for operator \"<\"\n", nil,
			""},
		{nil, "BEGIN BATCH DELETE FROM t WHERE p0 = 0 IF v0 IN (?); UPDATE t SET v0 = 1 WHERE p0 = 0 IF v0 < ?; " +
			"APPLY BATCH;",
			"INVALID: Invalid comparison with an empty set for operator \"<\"\n",
			"[applied] boolean\nfalse\n(1 rows)\n", nil,
			"conditions on one column in a random order"},
		{nil, "BEGIN BATCH DELETE FROM t WHERE p0 = 0 IF v1 IN (?); UPDATE t SET v0 = 1 WHERE p0 = 0 IF v0 < ?; " +
			"APPLY BATCH;",
			"INVALID: Invalid comparison with an empty set for operator \"<\"\n",
			"[applied] boolean\nfalse\n(1 rows)\n", nil, ""},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 LIKE '%b' AND v1 > 2 ALLOW FILTERING;",
			"INVALID: v0 LIKE '%<term>' b is only supported on properly indexed columns\n", one, nil,
			"ORDER BY and LIKE as filters"},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 LIKE '%b';",
			"INVALID: v0 LIKE '%<term>' b is only supported on properly indexed columns\n", one, nil, ""},
		{[]string{"INSERT INTO t (p0, v0) VALUES (1, '');"}, "SELECT p0 FROM t_w1;", one +
			"-- next page\nSERVER_ERROR: java.lang.NullPointerException\n",
			one + "-- next page\n" + one, []string{"page=1"}, "pages of a view after an empty partition key"},
		{[]string{"INSERT INTO t (p0, v0) VALUES (1, 'a');"}, "SELECT p0 FROM t_w1;", one +
			"-- next page\nSERVER_ERROR: java.lang.NullPointerException\n",
			one + "-- next page\n" + one, []string{"page=1"}, ""},
		{[]string{sasi("s0")}, "SELECT DISTINCT p0 FROM t WHERE s0 = 1;", none, one, nil,
			"SASI misses partitions of static columns only"},
		{[]string{"CREATE TABLE t (p0 int, v0 int, l frozen<list<int>>, PRIMARY KEY ((p0)));", sai("v0")},
			"SELECT p0 FROM t WHERE v0 = 1 AND l CONTAINS 1 ALLOW FILTERING;", none, one, nil,
			"SAI misses rows beside CONTAINS on frozen collections"},
		{[]string{"CREATE TABLE t (p0 int, v0 int, l list<int>, PRIMARY KEY ((p0)));", sai("v0")},
			"SELECT p0 FROM t WHERE v0 = 1 AND l CONTAINS 1 ALLOW FILTERING;", none, one, nil, ""},
		{[]string{"INSERT INTO t (p0, v0) VALUES (1, '');", sai("v0"), sai("s0")}, "SELECT p0 FROM t WHERE s0 = 1;",
			none, one, nil, "a second SAI index misses rows"},
		{[]string{sai("v0"), sai("s0")}, "SELECT p0 FROM t WHERE s0 = 1;", none, one, nil, ""},
		{[]string{"INSERT INTO t (p0, v0) VALUES (1, '');", sai("v0"), sai("e")},
			"SELECT p0 FROM t ORDER BY e ANN OF [1, 2] LIMIT 2;", "p int\n3\n(1 rows)\n", two, nil,
			"a second SAI index misses rows"},
		{[]string{"CREATE TABLE t (p0 int, c0 int, s0 int static, v0 int, PRIMARY KEY ((p0), c0));", sai("s0"),
			sai("v0")}, "SELECT p0 FROM t WHERE v0 = 1;", none, one, nil, "a second SAI index misses rows"},
		{[]string{"CREATE TABLE t (p0 int, c0 int, s0 int static, v0 int, PRIMARY KEY ((p0), c0));", sai("v0"),
			sai("s0")}, "SELECT p0 FROM t WHERE v0 = 1;", none, one, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, v0 int, PRIMARY KEY ((p0))) WITH COMPACT STORAGE;"},
			"BEGIN BATCH DELETE FROM t WHERE p0 = 4; UPDATE t SET v0 = 1 WHERE p0 = 4 IF EXISTS; APPLY BATCH;",
			"SERVER_ERROR: java.util.NoSuchElementException\n", "[applied] boolean\nfalse\n(1 rows)\n", nil,
			"deletions of partitions in conditional batches of a compact table"},
		{[]string{"CREATE TABLE t (p0 int, v0 int, PRIMARY KEY ((p0)));"},
			"BEGIN BATCH DELETE FROM t WHERE p0 = 4; UPDATE t SET v0 = 1 WHERE p0 = 4 IF EXISTS; APPLY BATCH;",
			"SERVER_ERROR: java.util.NoSuchElementException\n", "[applied] boolean\nfalse\n(1 rows)\n", nil, ""},
		{[]string{"INSERT INTO t (p0, v0) VALUES (1, '');", sai("e"), sai("v0")},
			"SELECT p0 FROM t ORDER BY e ANN OF [1, 2] LIMIT 2;", "p int\n3\n(1 rows)\n", two, nil, ""},
		{nil, "SELECT p0 FROM t WHERE v0 > 1 ORDER BY e ANN OF [1, 2] LIMIT 1 ALLOW FILTERING;", none, one, nil,
			"ANN OF filters the nearest rows only"},
		{nil, "SELECT p0 FROM t WHERE s0 = 1 ORDER BY e ANN OF [1, 2] LIMIT 1;", none, one, nil,
			"ANN OF misses rows of restricted static columns"},
		{nil, "SELECT p0 FROM t WHERE v0 = 1 ORDER BY e ANN OF [1, 2] LIMIT 1;", none, one, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, PRIMARY KEY ((p0)));"}, "SELECT p0 FROM t GROUP BY p0;",
			one + "-- next page\nPROTOCOL_ERROR: Invalid value for the paging state\n", one + "-- next page\n" + one,
			[]string{"page=1"},
			"pages of GROUP BY without clustering columns"},
		{[]string{"CREATE TABLE t (p0 int, PRIMARY KEY ((p0)));"},
			"SELECT p0 FROM t WHERE p0 IN (1, 2) GROUP BY p0;", two,
			one + "-- next page\np int\n2\n(1 rows)\n", []string{"page=1"},
			"pages of GROUP BY without clustering columns"},
		{[]string{"CREATE TABLE t (p0 int, c0 int, PRIMARY KEY ((p0), c0)) WITH CLUSTERING ORDER BY (c0 ASC);"},
			"SELECT p0 FROM t GROUP BY p0;",
			one + "-- next page\nPROTOCOL_ERROR: Invalid value for the paging state\n", one + "-- next page\n" + one,
			[]string{"page=1"}, ""},
		{nil, "SELECT DISTINCT p0 FROM t GROUP BY p0;", two, one + "-- next page\np int\n2\n(1 rows)\n",
			[]string{"page=1"}, "GROUP BY with DISTINCT has no pages"},
		{nil, "SELECT DISTINCT p0 FROM t GROUP BY p0;", two, one + "-- next page\np int\n3\n(1 rows)\n",
			[]string{"page=1"}, ""},
		{nil, "SELECT p0 FROM t GROUP BY p0;", two, one + "-- next page\np int\n2\n(1 rows)\n", []string{"page=1"}, ""},
		{[]string{"DELETE FROM t WHERE p0 = 2 AND c0 > 4;"}, "SELECT p0 FROM t GROUP BY p0 LIMIT 1;", failure, one,
			nil, "GROUP BY fails because of a deleted range"},
		{nil, "SELECT p0 FROM t GROUP BY p0 LIMIT 1;", failure, one, nil, ""},
		{[]string{"CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE p0 = '' AND c0 IS NOT NULL PRIMARY KEY (c0, " +
			"p0);"},
			"INSERT INTO t (p0, c0) VALUES ('a', 1);", "WRITE_FAILURE: x\n", "ok\n", nil,
			"writes fail because of a view of an empty key"},
		{nil, "INSERT INTO t (p0, c0) VALUES ('a', 1);", "WRITE_FAILURE: x\n", "ok\n", nil, ""},
		{[]string{"CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE p0 = '' AND c0 IS NOT NULL PRIMARY KEY (c0, " +
			"p0);"},
			"CREATE MATERIALIZED VIEW x AS SELECT * FROM t;", "INVALID: Key may not be empty\n",
			"created table ks.x\n", nil, "another view beside a view of an empty key"},
		{nil, "CREATE MATERIALIZED VIEW x AS SELECT * FROM t;", "INVALID: Key may not be empty\n",
			"created table ks.x\n", nil, ""},
		{masked("c0"), "SELECT v0, v0 FROM t WHERE p0 IN (1, 2) ORDER BY c0 ASC;", two, swapped, nil,
			"ORDER BY a masked column that is not selected"},
		{masked("c0"), "SELECT p0 + v0 FROM t WHERE p0 IN (1, 2) ORDER BY c0 ASC;",
			"SERVER_ERROR: java.lang.IndexOutOfBoundsException: Index 2 out of bounds for length 2\n", two, nil,
			"ORDER BY a masked column that is not selected"},
		{masked("c0"), "SELECT v0 FROM t WHERE p0 IN (1, 2) ORDER BY c0 ASC;", two, swapped, nil, ""},
		{masked("c0"), "SELECT v0, v0, c0 FROM t WHERE p0 IN (1, 2) ORDER BY c0 ASC;", two, swapped, nil, ""},
		{masked("c0"), "SELECT v0, v0 FROM t WHERE p0 = 1 ORDER BY c0 ASC;", two, swapped, nil, ""},
		{masked("c0"), "SELECT v0, v0 FROM t WHERE p0 IN (1, 2) ORDER BY c0 ASC;", two, one, nil, ""},
		{masked("v0"), "SELECT v0, v0 FROM t WHERE p0 IN (1, 2) ORDER BY c0 ASC;", two, swapped, nil, ""},
		{append(masked("c0"), "ALTER TABLE t ALTER c0 DROP MASKED;"),
			"SELECT v0, v0 FROM t WHERE p0 IN (1, 2) ORDER BY c0 ASC;", two, swapped, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, v0 int, PRIMARY KEY ((p0))) WITH COMPACT STORAGE;",
			"CREATE INDEX i ON t (v0);"},
			"SELECT p0 FROM t WHERE p0 = 1 AND v0 = 1;", none, one, nil,
			"a legacy index of a compact table misses rows"},
		{[]string{"CREATE TABLE t (p0 int, v0 int, PRIMARY KEY ((p0))) WITH COMPACT STORAGE;",
			"CREATE INDEX i ON t (v0);"},
			"SELECT p0 FROM t WHERE v0 = 1;", none, one, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, v0 int, PRIMARY KEY ((p0)));", "CREATE INDEX i ON t (v0);"},
			"SELECT p0 FROM t WHERE p0 = 1 AND v0 = 1;", none, one, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, p1 int, c0 int, c1 int, s0 int static, PRIMARY KEY ((p0, p1), c0, c1));",
			"CREATE INDEX i ON t (p0);"},
			"SELECT p0 FROM t WHERE p0 = 1 AND c1 = 1 ALLOW FILTERING;", failure, one, nil,
			"a legacy index of a partition key fails beside clustering columns"},
		{[]string{"CREATE TABLE t (p0 int, p1 int, c0 int, c1 int, s0 int static, PRIMARY KEY ((p0, p1), c0, c1));",
			"CREATE INDEX i ON t (p0);"},
			"SELECT p0 FROM t WHERE p0 = 1 AND c0 = 1 ALLOW FILTERING;", failure, one, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, p1 int, c0 int, c1 int, PRIMARY KEY ((p0, p1), c0, c1));",
			"CREATE INDEX i ON t (p0);"},
			"SELECT p0 FROM t WHERE p0 = 1 AND c1 = 1 ALLOW FILTERING;", failure, one, nil, ""},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 > 2 AND v0 < 0 ALLOW FILTERING;", failure, none, nil,
			"SASI fails because of an empty range"},
		{[]string{sasi("v0")}, "SELECT p0 FROM t WHERE v0 > 2 AND v0 < 4 ALLOW FILTERING;", failure, one, nil, ""},
		{[]string{sai("v0")}, "SELECT p0 FROM t WHERE v0 > 2 AND v0 < 0 ALLOW FILTERING;", failure, none, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, v0 int, v1 text, PRIMARY KEY ((p0)));", sasi("v0")},
			"SELECT p0 FROM t WHERE v0 = 1 AND v1 > 'a' ALLOW FILTERING;", none, one, nil,
			"SASI misses rows beside ranges of texts"},
		{[]string{"CREATE TABLE t (p0 int, v0 int, v1 text, PRIMARY KEY ((p0)));", sasi("v0")},
			"SELECT p0 FROM t WHERE v0 = 1 AND v1 = 'a' ALLOW FILTERING;", none, one, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, v0 int, v1 int, PRIMARY KEY ((p0)));", sasi("v0")},
			"SELECT p0 FROM t WHERE v0 = 1 AND v1 > 1 ALLOW FILTERING;", none, one, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, v0 int, e vector<float, 2>, PRIMARY KEY ((p0)));", sai("v0")},
			"SELECT p0 FROM t WHERE p0 = 1 AND v0 = 1 AND e = [1, 2] ALLOW FILTERING;", one, none, nil,
			"SAI does not compare vectors in a partition"},
		{[]string{"CREATE TABLE t (p0 int, v0 int, e vector<float, 2>, PRIMARY KEY ((p0)));", sai("v0")},
			"SELECT p0 FROM t WHERE v0 = 1 AND e = [1, 2] ALLOW FILTERING;", one, none, nil, ""},
		{[]string{"CREATE TABLE t (p0 int, c0 text, PRIMARY KEY ((p0), c0)) WITH CLUSTERING ORDER BY (c0 DESC);",
			sasi("c0")}, "SELECT c0 FROM t WHERE c0 <= 'b' ALLOW FILTERING;", "c0 text\n'a'\n(1 rows)\n",
			"c0 text\n''\n'a'\n(2 rows)\n", nil, "SASI misses empty texts"},
		{[]string{"CREATE TABLE t (p0 int, c0 text, PRIMARY KEY ((p0), c0)) WITH CLUSTERING ORDER BY (c0 DESC);",
			sasi("c0")}, "SELECT c0 FROM t WHERE c0 <= 'b' ALLOW FILTERING;", "c0 text\n'a'\n(1 rows)\n",
			"c0 text\n'b'\n'a'\n(2 rows)\n", nil, ""},
		{[]string{sasi("c0")}, "SELECT c0 FROM t WHERE c0 <= 'b' ALLOW FILTERING;", "c0 text\n'a'\n(1 rows)\n",
			"c0 text\n''\n'a'\n(2 rows)\n", nil, ""},
		{[]string{"INSERT INTO t (p0, v0) VALUES (1, '');"}, "SELECT p0 FROM t_w1;", one +
			"-- next page\nSERVER_ERROR: java.lang.NullPointerException: Cannot invoke " +
			"\"java.nio.ByteBuffer.position()\" because \"key\" is null\n",
			one + "-- next page\n" + one, []string{"page=1"}, "pages of a view after an empty partition key"},
		{nil, "INSERT INTO t (p0, v0) VALUES (4, (1, 'a'));", "ok\n",
			"INVALID: Invalid tuple type literal for v0 of type u\n", nil, ""},
		{[]string{"CREATE TABLE t (p0 int, c0 text, PRIMARY KEY ((p0), c0)) WITH CLUSTERING ORDER BY (c0 DESC);",
			sai("c0")},
			"SELECT p0 FROM t WHERE c0 = '';", none, one, nil,
			"SAI misses empty texts of a descending clustering column"},
		{[]string{"CREATE TABLE t (p0 int, c0 text, PRIMARY KEY ((p0), c0)) WITH CLUSTERING ORDER BY (c0 ASC);",
			sai("c0")},
			"SELECT p0 FROM t WHERE c0 = '';", none, one, nil, ""},
		{nil, "cql state=0x00\nSELECT * FROM nosuch;", refusedState, "INVALID: table nosuch does not exist\n",
			[]string{"state=0x00"}, "paging states are checked after the statement"},
		{nil, "cql state=0x\nSELECT * FROM t;", refusedState, one, []string{"state=0x"},
			"paging states are checked after the statement"},
		{nil, "cql state=0x00\nSELECT * FROM t;", refusedState, one, []string{"state=0x00"}, ""},
		{nil, "cql state=0x00\nINSERT INTO t;", refusedState, "ok\n", []string{"state=0x00"}, ""},
		{nil, "cql page=2 consistency=serial\nSELECT * FROM t;", two, serialRead, []string{"page=2"},
			"serial reads of several partitions in pages"},
		{nil, "cql consistency=serial\nSELECT * FROM t;", two, serialRead, nil, ""},
		{nil, "batch consistency=11\nINSERT INTO t;", "INVALID: x\n", "INVALID: NODE_LOCAL consistency level\n",
			[]string{"consistency=11"}, "batches at NODE_LOCAL"},
		{nil, "cql consistency=11\nINSERT INTO t;", "INVALID: x\n", "INVALID: NODE_LOCAL consistency level\n",
			[]string{"consistency=11"}, ""},
		{nil, "DELETE FROM t WHERE c > null;", "WRITE_TIMEOUT: x\n", "INVALID: Invalid null value in condition\n", nil,
			"time-outs that cqld answers with INVALID"},
		{nil, "DELETE FROM t WHERE c > null;", "WRITE_TIMEOUT: x\n", "ok\n", nil, ""},
		{nil, "DELETE FROM t WHERE c > null;", "ok\n", "INVALID: Invalid null value in condition\n", nil, ""},
		{nil, "DELETE FROM t WHERE c > null;", "ok\n", "INVALID: Invalid null value in condition\n",
			[]string{"consistency=any"}, "time-outs that cqld answers with INVALID"},
		{nil, "DELETE FROM t WHERE c > null;", "UNAVAILABLE: x\n", "INVALID: Invalid null value in condition\n", nil,
			"time-outs that cqld answers with INVALID"},
		{nil, "? unset\nSELECT (list<int>)? FROM t;", "v list<int>\nmalformed list<int> 0x\n(1 rows)\n",
			"v list<int>\nnull\n(1 rows)\n", nil, "unset collections that are selected"},
		{nil, "? null\nSELECT (list<int>)? FROM t;", "v list<int>\nmalformed list<int> 0x\n(1 rows)\n",
			"v list<int>\nnull\n(1 rows)\n", nil, ""},
		{nil, "? unset\nSELECT (int)? FROM t;", "v int\nempty\n(1 rows)\n", "v int\nnull\n(1 rows)\n", nil, ""},
		{nil, "INSERT INTO t JSON '';", "INVALID: Could not decode JSON string as a map: com.fasterxml.jackson\n",
			"INVALID: Could not decode JSON string as a map: EOF\n", nil, "messages of errors in JSON"},
		{nil, "DESCRIBE TABLE t;", "WHERE p0 = 'it's'\n", "WHERE p0 = 'it''s'\n", nil,
			"quotation marks in where_clause"},
		{nil, "SELECT v0 FROM t;", "text\n'it's'\n(1 rows)\n", "text\n'it''s'\n(1 rows)\n", nil, ""},
	} {
		c := &comparison{x.input, x.want, x.got, x.options, &comparedTable{}}
		for _, s := range x.table {
			c.table.executed(s, "updated table ks.t\ncreated table ks.w\n")
		}
		name := ""
		for _, d := range asDocumented {
			if name == "" && d.matches(c) {
				name = d.name
			}
		}
		if name != x.name {
			t.Errorf("%v\n%s\nis excluded as %q, want %q", x.table, x.input, name, x.name)
		}
	}
}

func sasi(column string) string {
	return "CREATE CUSTOM INDEX i_" + column + " ON t (" + column +
		") USING 'org.apache.cassandra.index.sasi.SASIIndex';"
}

// masked returns statements that create a table and mask a column.
func masked(column string) []string {
	return []string{
		"CREATE TABLE t (p0 int, c0 int, v0 int, PRIMARY KEY ((p0), c0)) WITH CLUSTERING ORDER BY (c0 ASC);",
		"ALTER TABLE t ALTER " + column + " MASKED WITH DEFAULT;",
	}
}

func sai(column string) string {
	return "CREATE INDEX i_" + column + " ON t (" + column + ") USING 'sai';"
}
