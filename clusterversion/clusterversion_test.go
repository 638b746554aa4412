package clusterversion

import (
	"strings"
	"testing"
)

// TestRange checks which builds may be part of a cluster, and what an operator reads if one may not.
func TestRange(t *testing.T) {
	both := Range{1, 2}
	for v, want := range map[Version]string{0: "upgrade all nodes", 1: "", 2: "", 3: "start a newer build"} {
		err := both.Check(v)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("version %d: %v", v, err)
		}
	}
	if !V1.Enables(V1) || V1.Enables(2) || !Version(2).Enables(V1) {
		t.Error("a version must enable exactly what it and its predecessors introduced")
	}
	if (Range{}).Valid() || (Range{2, 1}).Valid() || !Supported().Valid() {
		t.Error("a range without a version is valid, or this build supports none")
	}
	if got := (Range{}).OrFirst(); got != (Range{V1, V1}) || both.OrFirst() != both {
		t.Errorf("a record without versions stands for %v", got)
	}
	if both.String() != "versions 1 to 2" || Supported().String() != "version 1" {
		t.Errorf("%v, %v", both, Supported())
	}
}
