//go:build integration

package integration

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
)

// TestBenchPartition runs the partition stress test against a node that holds partitions to 300 entities a second: with
// more in flight the node refuses, and the curve shows that it does not go beyond.
func TestBenchPartition(t *testing.T) {
	const target = 300
	ring := startRing(t, process.Options{Nodes: 1, YAML: []string{fmt.Sprint("tables_partition_target: ", target)}})
	binary, _ := cqld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "bench", "partition", "--url", ring.Servers[0].Tables, "--rows", "100", "--size", "100", "--steps", "1,32", "--step-time", "2s",
		"--target", fmt.Sprint(target), "--backoff", "20ms", "--backoff-min", "5ms", "--backoff-max", "200ms", "--retries", "50").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("\n%s", out)
	_, curve, ok := strings.Cut(string(out), "failed\n")
	lines := strings.Split(curve, "\n")
	if !ok || len(lines) < 3 {
		t.Fatalf("no curve:\n%s", out)
	}
	var inFlight, failed, refused int
	var rate, percent, requests, p50, p99 float64
	if _, err := fmt.Sscanf(strings.Replace(lines[1], "%", "", 1), "%d %g %g %g %g %g %d %d", &inFlight, &rate, &percent, &requests, &p50, &p99, &refused, &failed); err != nil {
		t.Fatalf("%q: %v", lines[1], err)
	}
	// A bucket that holds a second's worth lets more through in the first second.
	if inFlight != 32 || refused == 0 || failed > 0 || rate > 2*target {
		t.Errorf("with 32 in flight %.0f entities/s, %d refused, %d failed:\n%s", rate, refused, failed, out)
	}
}
