package query

import (
	"strings"
	"testing"

	"cqld/ring"
)

// TestConditionalBatchesReadLists executes conditional batches that change lists of rows without conditions: each must
// change the stored list. Cassandra does not read these lists (docs/differences.md).
func TestConditionalBatchesReadLists(t *testing.T) {
	for _, x := range []struct{ change, condition, want string }{
		{"DELETE l[0] FROM t WHERE p = 1 AND c = 2",
			"UPDATE t SET v = 5 WHERE p = 1 AND c = 1 IF v = 1", "[1, 2] | [7, 8]\n[5] | [7, 8]\n"},
		{"UPDATE t SET l[1] = 9 WHERE p = 1 AND c = 2",
			"UPDATE t SET v = 5 WHERE p = 1 AND c = 1 IF v = 1", "[1, 2] | [7, 8]\n[4, 9] | [7, 8]\n"},
		{"UPDATE t SET l = l - [4] WHERE p = 1 AND c = 2",
			"UPDATE t SET v = 5 WHERE p = 1 AND c = 1 IF v = 1", "[1, 2] | [7, 8]\n[5] | [7, 8]\n"},
		{"DELETE l[0] FROM t WHERE p = 1 AND c = 2",
			"UPDATE t SET s = 2 WHERE p = 1 IF s = 1", "[1, 2] | [7, 8]\n[5] | [7, 8]\n"},
		{"UPDATE t SET l = l - [2] WHERE p = 1 AND c = 1",
			"INSERT INTO t (p, c) VALUES (1, 2) IF NOT EXISTS", "[1, 2] | [7, 8]\n[4, 5] | [7, 8]\n"},
		{"DELETE sl[1] FROM t WHERE p = 1",
			"UPDATE t SET v = 5 WHERE p = 1 AND c = 1 IF v = 1", "[1, 2] | [7]\n[4, 5] | [7]\n"},
		{"UPDATE t SET sl = sl - [7] WHERE p = 1",
			"UPDATE t SET v = 5 WHERE p = 1 AND c = 1 IF v = 1", "[1, 2] | [8]\n[4, 5] | [8]\n"},
		{"UPDATE t SET sl = sl - [7] WHERE p = 1",
			"UPDATE t SET s = 2 WHERE p = 1 IF s = 1", "[1, 2] | [8]\n[4, 5] | [8]\n"},
		{"DELETE sl[1] FROM t WHERE p = 1",
			"UPDATE t SET s = 2 WHERE p = 1 IF EXISTS", "[1, 2] | [7]\n[4, 5] | [7]\n"},
	} {
		p, s := newTestProcessor(t, &modelStore{})
		for _, text := range []string{
			"CREATE TABLE t (p int, c int, v int, s int STATIC, l list<int>, sl list<int> STATIC, PRIMARY KEY (p, c))",
			"INSERT INTO t (p, c, v, s, l, sl) VALUES (1, 1, 1, 1, [1, 2], [7, 8])",
			"INSERT INTO t (p, c, l) VALUES (1, 2, [4, 5])",
			"BEGIN BATCH " + x.change + "; " + x.condition + "; APPLY BATCH",
		} {
			if _, err := p.Query(at(ring.One), s, text, &Params{}); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		got := renderRows(mustQuery(t, p, s, "SELECT l, sl FROM t"))
		if _, rows, _ := strings.Cut(got, "\n"); rows != x.want {
			t.Errorf("%s; %s: the lists are %q, want %q", x.change, x.condition, rows, x.want)
		}
	}
}

// TestColumnsOfRangesStay executes deletions of columns of several rows: each is refused, or, if the range is empty,
// changes nothing, as in Cassandra.
func TestColumnsOfRangesStay(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{})
	mustQuery(t, p, s, "CREATE TABLE t (p int, c int, v int, s int STATIC, PRIMARY KEY (p, c))")
	mustQuery(t, p, s, "INSERT INTO t (p, c, v, s) VALUES (1, 1, 1, 1)")
	for _, x := range []struct {
		where   string
		refused bool
	}{{"p = 1", true}, {"p IN (1, 2)", true}, {"p = 1 AND c > 0", true}, {"p = 1 AND c > 3 AND c < 2", false}} {
		for _, columns := range []string{"v", "v, s"} {
			text := "DELETE " + columns + " FROM t WHERE " + x.where
			for _, text := range []string{text, "BEGIN BATCH " + text + "; APPLY BATCH"} {
				if _, err := p.Query(at(ring.One), s, text, &Params{}); (err != nil) != x.refused {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
	if n := mustQuery(t, p, s, "SELECT c FROM t WHERE v = 1 AND s = 1 ALLOW FILTERING").RowCount; n != 1 {
		t.Errorf("%d rows have their values, want 1", n)
	}
}
