package node

import (
	"strconv"
	"strings"
	"testing"
)

// EXPLAIN estimates the whole table on a node that stores a part of it, and names the replicas.
func TestExplainOnARing(t *testing.T) {
	r := openNodes(t, 84, 3, nil)
	c := r.connect(0)
	const partitions = 30
	r.fill(c, "2", partitions)
	answer := map[string]string{}
	for _, row := range r.query(c, "EXPLAIN ANALYZE SELECT * FROM k.t").Rows {
		answer[string(row[0])] = string(row[1])
	}
	// Few partitions are counted; the ranges that this node does not replicate are extrapolated.
	if n, err := strconv.Atoi(answer["estimated partitions"]); err != nil || n < partitions/2 || n > partitions*2 {
		t.Errorf("%q partitions are estimated: %v", answer["estimated partitions"], err)
	}
	if answer["replicas"] != "127.0.84.1, 127.0.84.2, 127.0.84.3" ||
		answer["rows returned"] != strconv.Itoa(partitions) ||
		!strings.HasPrefix(answer["path"], "scan") {
		t.Errorf("%q", answer)
	}
	for _, row := range r.query(c, "EXPLAIN SELECT * FROM k.t WHERE a = 1").Rows {
		if string(row[0]) == "replicas" && len(strings.Split(string(row[1]), ", ")) != 2 {
			t.Errorf("the replicas of a partition are %s", row[1])
		}
	}
	r.query(c, "EXPLAIN SELECT * FROM system.local")
}
