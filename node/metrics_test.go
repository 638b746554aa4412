package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cqld/integration/cqlclient"
)

// families returns the types of the metrics of a node by their names, without metrics of the Go runtime.
func families(t *testing.T, n *Node) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(metricsOf(t, n)) {
		var name, kind string
		if k, _ := fmt.Sscanf(line, "# TYPE %s %s", &name, &kind); k != 2 {
			continue
		}
		if name, ours := strings.CutPrefix(name, "cqld_"); ours {
			out[name] = kind
		}
	}
	return out
}

// TestMetricsHaveOneScheme compares the names of metrics with the scheme that package metrics describes, and the
// metrics of a node that has just started with those after requests: a series that appears with its first event hides
// that event from rates and alerts.
func TestMetricsHaveOneScheme(t *testing.T) {
	r := openNodes(t, 232, 1, archiving("file://"+t.TempDir()))
	first := families(t, r.nodes[0])
	if len(first) < 100 {
		t.Errorf("only %d metrics", len(first))
	}
	subsystems := subsystemsOfMetrics()
	used := map[string]bool{}
	for name, kind := range first {
		subsystem, _, _ := strings.Cut(name, "_")
		used[subsystem] = true
		if !slices.Contains(subsystems, subsystem) {
			t.Errorf("%s: no subsystem has this name", name)
		}
		if strings.HasSuffix(name, "_total") != (kind == "counter") || strings.Count(name, "_total") > 1 {
			t.Errorf("%s is a %s: counters, and only they, end in one _total", name, kind)
		}
	}
	for _, s := range subsystems {
		if s != "certificate" && !used[s] {
			t.Errorf("no metric has the subsystem %s", s)
		}
	}
	c := r.connect(0)
	r.fill(c, "1", 10)
	r.query(c, "SELECT * FROM k.t")
	r.query(c, "UPDATE k.t SET v = 1 WHERE a = 1 IF v = 2")
	if _, err := send(c, "SELECT * FROM k.nowhere", cqlclient.Options{}); err == nil {
		t.Error("a table that does not exist is read")
	}
	for name := range families(t, r.nodes[0]) {
		if first[name] == "" {
			t.Errorf("%s appears with its first event, and is not 0 from the start", name)
		}
	}
}

// subsystemsOfMetrics returns what names of metrics begin with, after cqld_.
func subsystemsOfMetrics() []string {
	return []string{
		"audit", "backup", "certificate", "client", "coordinator", "disk", "function", "hint", "index", "internode",
		"job", "login",
		"memory", "metadata", "node", "repair", "request", "ring", "storage", "stream", "table", "tables", "tls",
		"trace", "vector",
	}
}
