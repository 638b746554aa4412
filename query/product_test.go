package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cqld/query/invalid"
	"cqld/ring"
)

// TestProductOfINListsIsBounded checks that lists of the partition key and of a clustering column are refused if their
// product has too many rows, and are accepted otherwise.
func TestProductOfINListsIsBounded(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))")
	list := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ",%d", i)
		}
		return "(" + b.String()[1:] + ")"
	}
	for _, test := range []struct {
		keys, rows int
		refused    bool
	}{{3000, 3000, true}, {363, 362, true}, {362, 362, false}, {3000, 1, false}, {1, 3000, false}} {
		where := " WHERE k IN " + list(test.keys) + " AND c IN " + list(test.rows)
		for _, text := range []string{"SELECT v FROM t" + where, "DELETE FROM t" + where, "UPDATE t SET v = 1" +
			where} {
			if strings.HasPrefix(text, "UPDATE") && !test.refused {
				continue // 131,044 rows
			}
			_, err := p.Query(at(ring.One), s, text, &Params{})
			var refused *invalid.Error
			if err != nil && !strings.Contains(err.Error(),
				"restrictions on primary key produces "+fmt.Sprint(test.keys*test.rows)+" values") {
				t.Errorf("%d keys by %d rows, %.10s: %v", test.keys, test.rows, text, err)
			}
			if test.refused != (errors.As(err, &refused) &&
				strings.Contains(err.Error(), "in_select_cartesian_product")) {
				t.Errorf("%d keys by %d rows, %.10s: %v", test.keys, test.rows, text, err)
			}
		}
	}
}
