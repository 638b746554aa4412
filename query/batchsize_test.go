package query

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"cqld/ring"
)

// TestBatchesHaveCassandrasSize compares the sizes in warnings with those of Cassandra 5.0.9 for the same batches: the
// size that each change adds to a batch with a large row of another partition.
func TestBatchesHaveCassandrasSize(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TYPE u (a int, b text)",
		"CREATE TABLE t (p int, c int, v text, n int, st text static, l list<int>, m map<text, int>, se set<int>, "+
			"fl frozen<list<int>>, uu u, PRIMARY KEY (p, c))",
		"CREATE TABLE k (p int PRIMARY KEY, v text)",
		"CREATE TABLE tx (p text, q text, c1 text, c2 int, v text, PRIMARY KEY ((p, q), c1, c2)) WITH CLUSTERING "+
			"ORDER BY (c1 DESC, c2 ASC)",
		"CREATE TABLE tn (p int PRIMARY KEY, n counter)", "CREATE TABLE tt (p int, c int, v text, PRIMARY KEY (p, c))")
	const large = 5374 // of the row of 5,300 bytes
	pattern := regexp.MustCompile(`^Batch for \[.*\] is of size (\d+), exceeding specified threshold of 5120 by (\d+)\.$`)
	size := func(batch string) (n int, rest []string) {
		t.Helper()
		r := at(ring.One)
		_, err := p.Query(r, s, batch, &Params{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Warnings) == 0 {
			return 0, nil
		}
		m := pattern.FindStringSubmatch(r.Warnings[0])
		if m == nil {
			return 0, r.Warnings
		}
		n, _ = strconv.Atoi(m[1])
		if over, _ := strconv.Atoi(m[2]); over != n-5120 {
			t.Errorf("%s", r.Warnings[0])
		}
		return n, r.Warnings[1:]
	}
	for _, test := range []struct {
		adds       int
		statements string
	}{
		{54, "INSERT INTO t (p, c) VALUES (2, 2)"},
		{78, "INSERT INTO t (p, c, n) VALUES (2, 2, 3)"},
		{78, "UPDATE t SET n = 3 WHERE p = 2 AND c = 2"},
		{78, "UPDATE t USING TTL 50 SET n = 3 WHERE p = 2 AND c = 2"},
		{90, "INSERT INTO t (p, c, n) VALUES (2, 2, 3) USING TTL 50"},
		{74, "INSERT INTO t (p, c, n) VALUES (2, 2, null)"},
		{66, "INSERT INTO t (p, c, m) VALUES (2, 2, null)"},
		{74, "DELETE n FROM t WHERE p = 2 AND c = 2"},
		{54, "DELETE FROM t WHERE p = 2 AND c = 2"},
		{49, "DELETE FROM t WHERE p = 2 AND c > 2"},
		{53, "DELETE FROM t WHERE p = 2 AND c >= 2 AND c < 7"},
		{49, "DELETE FROM t WHERE p = 2 AND c <= 7"},
		{29, "DELETE FROM t WHERE p = 2"},
		{146, "INSERT INTO t (p, c, l) VALUES (2, 2, [1, 2])"},
		{146, "UPDATE t SET l = l + [1, 2] WHERE p = 2 AND c = 2"},
		{93, "INSERT INTO t (p, c, m) VALUES (2, 2, {'abc': 1})"},
		{93, "UPDATE t SET m['abc'] = 1 WHERE p = 2 AND c = 2"},
		{89, "DELETE m['abc'] FROM t WHERE p = 2 AND c = 2"},
		{138, "INSERT INTO t (p, c, se) VALUES (2, 2, {1, 2, 3})"},
		{94, "INSERT INTO t (p, c, fl) VALUES (2, 2, [1, 2])"},
		{117, "INSERT INTO t (p, c, uu) VALUES (2, 2, {a: 1, b: 'xyz'})"},
		{89, "UPDATE t SET uu.b = 'x' WHERE p = 2 AND c = 2"},
		{52, "UPDATE t SET st = 'abc' WHERE p = 2"},
		{101, "UPDATE t SET st = 'abc', n = 1 WHERE p = 2 AND c = 2"},
		{73, "INSERT INTO k (p, v) VALUES (2, 'abc')"},
		{29, "DELETE FROM k WHERE p = 2"},
		{70, "DELETE v FROM k WHERE p = 2"},
		{80, "INSERT INTO tx (p, q, c1, c2, v) VALUES ('a', 'bcd', 'efghi', 3, 'z')"},
		{47, "DELETE FROM tx WHERE p = 'a' AND q = 'b' AND c1 = 'c'"},
		{51, "DELETE FROM tx WHERE p = 'a' AND q = 'b' AND c1 = 'c' AND c2 > 3"},
		{48, "DELETE FROM tx WHERE p = 'a' AND q = 'b' AND c1 > 'cde'"},
		{49, "DELETE FROM tx WHERE p = 'a' AND q = 'b' AND c1 <= 'cde' AND c1 > 'a'"},
		{101, "INSERT INTO t (p, c, n) VALUES (2, 2, 3); INSERT INTO t (p, c, v) VALUES (2, 2, 'abc')"},
		{78, "INSERT INTO t (p, c, n) VALUES (2, 2, 3); INSERT INTO t (p, c, n) VALUES (2, 2, 4)"},
		{127, "INSERT INTO t (p, c, n) VALUES (2, 2, 3); INSERT INTO t (p, c, n) VALUES (2, 3, 4)"},
		{78, "DELETE FROM t WHERE p = 2; INSERT INTO t (p, c, n) VALUES (2, 2, 3)"},
		{73, "DELETE FROM t WHERE p = 2 AND c > 1 AND c < 3; DELETE FROM t WHERE p = 2 AND c > 5 AND c < 7"},
		{125, "INSERT INTO k (p, v) VALUES (2, 'a'); INSERT INTO t (p, c) VALUES (3, 4)"},
	} {
		got, _ := size(fmt.Sprintf("BEGIN BATCH INSERT INTO t (p, c, v) VALUES (1, 1, '%s'); %s; APPLY BATCH",
			strings.Repeat("x", 5300), test.statements))
		if got != large+test.adds {
			t.Errorf("%s: adds %d, want %d", test.statements, got-large, test.adds)
		}
	}
	if got, _ := size("BEGIN BATCH INSERT INTO t (p, c, v) VALUES (1, 1, '" + strings.Repeat("x", 5300) + "'); " +
		"INSERT INTO tt (p, c, v) VALUES (1, 2, 'abc'); APPLY BATCH"); got != 0 {
		t.Errorf("one partition key in two tables of a keyspace: %d", got)
	}
	counters := "BEGIN COUNTER BATCH "
	for i := range 60 {
		counters += fmt.Sprintf("UPDATE tn SET n = n + 1 WHERE p = %d; ", i)
	}
	if got, rest := size(counters + "APPLY BATCH"); got != 60*106 || len(rest) != 1 ||
		!strings.HasPrefix(rest[0], "Unlogged batch covering 60 partitions") {
		t.Errorf("counters: %d, %q", got, rest)
	}
	two := func(n int) string {
		return fmt.Sprintf("BEGIN BATCH INSERT INTO k (p, v) VALUES (1, '%s'); INSERT INTO k (p, v) VALUES (2, "+
			"'%s'); APPLY BATCH",
			strings.Repeat("x", n), strings.Repeat("y", 100))
	}
	for _, test := range []struct{ length, size int }{{4880, 0}, {4881, 5121}, {50960, 51200}} {
		if got, _ := size(two(test.length)); got != test.size {
			t.Errorf("%d bytes: %d, want %d", test.length, got, test.size)
		}
	}
	if _, err := p.Query(at(ring.One), s, two(50961), &Params{}); err == nil || err.Error() != "Batch too large" {
		t.Errorf("51,201 bytes: %v", err)
	}
}
