//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"cqld/integration/cqlclient"
)

// TestListsKeepTheOrderOfOneClient changes lists through all nodes in turn, each change after the answer to the one
// before: several in every millisecond. All lists must have the order of the changes.
func TestListsKeepTheOrderOfOneClient(t *testing.T) {
	conns := dial(t)
	keyspace(t, conns[0], "lists", 4)
	query(t, conns[0], "CREATE TABLE lists.t (k int PRIMARY KEY, v int, l list<int>)", cqlclient.Options{})
	atQuorum := cqlclient.Options{Consistency: quorum}
	const lists, changes = 60, 12
	for k := range lists {
		query(t, conns[0], fmt.Sprintf("INSERT INTO lists.t (k, v) VALUES (%d, 0)", k), atQuorum)
		var want []string
		for i := range changes {
			set, condition := fmt.Sprintf("l = l + [%d, %d]", 2*i, 2*i+1), ""
			if i%3 == 2 {
				set = fmt.Sprintf("l = [%d, %d] + l", 2*i, 2*i+1)
			}
			if k%4 == 3 {
				condition = " IF v = 0"
			}
			text := fmt.Sprintf("UPDATE lists.t SET %s WHERE k = %d%s", set, k, condition)
			if k%4 == 2 {
				text = "BEGIN BATCH " + text + "; APPLY BATCH"
			}
			query(t, conns[(k+i)%len(conns)], text, atQuorum)
			if i%3 == 2 {
				want = append([]string{fmt.Sprint(2 * i), fmt.Sprint(2*i + 1)}, want...)
			} else {
				want = append(want, fmt.Sprint(2*i), fmt.Sprint(2*i+1))
			}
		}
		a := query(t, conns[k%len(conns)], fmt.Sprintf("SELECT l FROM lists.t WHERE k = %d", k), atQuorum)
		if got, want := a.Columns[0].Type.Text(a.Rows[0][0]), "["+strings.Join(want, ", ")+"]"; got != want {
			t.Errorf("list %d is %s, want %s", k, got, want)
		}
	}
}
