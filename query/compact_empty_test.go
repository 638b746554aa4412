package query

import (
	"fmt"
	"strings"
	"testing"

	"cqld/ring"
)

// TestEmptyClusteringsAreRefusedWhenApplied writes rows with an empty clustering to compact tables with one clustering
// column: as in Cassandra, the row is refused when the change is applied, and not if a condition does not hold.
func TestEmptyClusteringsAreRefusedWhenApplied(t *testing.T) {
	const refused, applied = "Invalid empty or null value for column c", "[applied] boolean\n"
	for _, x := range []struct{ text, want string }{
		{"INSERT INTO %s (p, c, v) VALUES (1, '', 1)", refused},
		{"INSERT INTO %s (p, c, v) VALUES (1, '', 1) IF NOT EXISTS", refused},
		{"INSERT INTO %s (p, c) VALUES (1, '')", refused},
		{"INSERT INTO %s JSON '{\"p\": 1, \"c\": \"\", \"v\": 1}'", refused},
		{"UPDATE %s SET v = 1 WHERE p = 1 AND c = ''", refused},
		{"UPDATE %s SET v = 1 WHERE p = 1 AND c IN ('a', '')", refused},
		{"UPDATE %s SET v = 1 WHERE p IN () AND c = ''", "<nil>"},
		{"UPDATE %s SET v = 1 WHERE p = 1 AND c = '' IF v = 5", applied + "false\n"},
		{"UPDATE %s SET v = 1 WHERE p = 1 AND c = '' IF EXISTS", applied + "false\n"},
		{"UPDATE %s SET v = 1 WHERE p = 1 AND c = '' IF v = null", refused},
		{"UPDATE %s USING TTL -1 SET v = 1 WHERE p = 1 AND c = ''", "A TTL must be greater or equal to 0, but was -1"},
		{"DELETE FROM %s WHERE p = 1 AND c = ''", refused},
		{"DELETE v FROM %s WHERE p = 1 AND c = ''", refused},
		{"DELETE FROM %s WHERE p = 1 AND c = '' IF EXISTS", applied + "false\n"},
		{"DELETE FROM %s WHERE p = 1 AND c = '' IF v = 5", applied + "false\n"},
		{"DELETE FROM %s WHERE p = 1 AND c > ''", "<nil>"},
		{"BEGIN BATCH DELETE FROM %[1]s WHERE p = 1 AND c = ''; UPDATE %[1]s SET v = 1 WHERE p = 1 AND c = 'a' " +
			"IF v = 5; APPLY BATCH", applied + "false\n"},
		{"BEGIN BATCH DELETE FROM %[1]s WHERE p = 1 AND c = ''; UPDATE %[1]s SET v = 1 WHERE p = 1 AND c = 'a' " +
			"IF v = null; APPLY BATCH", refused},
	} {
		p, s := newTestProcessor(t, &modelStore{},
			"CREATE TABLE up (p int, c text, v int, PRIMARY KEY (p, c)) WITH COMPACT STORAGE",
			"CREATE TABLE down (p int, c text, v int, PRIMARY KEY (p, c)) WITH COMPACT STORAGE AND "+
				"CLUSTERING ORDER BY (c DESC)")
		for _, table := range []string{"up", "down"} {
			text := fmt.Sprintf(x.text, table)
			result, err := p.Query(at(ring.One), s, text, &Params{})
			got := fmt.Sprint(err)
			if err == nil && strings.HasPrefix(x.want, applied) {
				got = renderRows(result)
			}
			if got != x.want {
				t.Errorf("%s: %q, want %q", text, got, x.want)
			}
		}
	}
}

// TestClusteringsOfBatchesAreEvaluatedFirst executes conditional batches whose condition is false, beside a statement
// without a condition whose clustering is invalid: as in Cassandra, the batch is refused.
func TestClusteringsOfBatchesAreEvaluatedFirst(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (p int, c text, v int, PRIMARY KEY (p, c))")
	for _, change := range []string{"INSERT INTO t (p, c, v) VALUES (1, null, 1)",
		"UPDATE t SET v = 1 WHERE p = 1 AND c = null", "DELETE FROM t WHERE p = 1 AND c > null"} {
		text := "BEGIN BATCH " + change + "; UPDATE t SET v = 2 WHERE p = 1 AND c = 'x' IF v = 5; APPLY BATCH"
		_, err := p.Query(at(ring.One), s, text, &Params{})
		if want := "Invalid null value in condition for column c"; fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
