//go:build integration

package integration

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/process"
)

// An account of the configuration. With one, the development account does not exist.
const (
	racesAccount = "races"
	racesKey     = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

// TestBenchPartition executes the partition stress test against a node that limits partitions to 300 entities a second:
// with more requests in flight, the node refuses some, and the rate does not exceed the limit.
func TestBenchPartition(t *testing.T) {
	const target = 300
	ring := startRing(t, process.Options{Nodes: 1, YAML: []string{fmt.Sprint("tables_partition_target: ", target),
		"tables_accounts: [ { name: " + racesAccount + ", key: " + racesKey + " } ]"}})
	t.Run("accounts", func(t *testing.T) { tablesAccounts(t, ring.Servers[0].Tables) })
	t.Run("busy", func(t *testing.T) { tablesBusy(t, ring.Servers[0].Tables) })
	binary, _ := cqld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "bench", "partition", "--url", ring.Servers[0].Tables, "--account",
		racesAccount, "--key", racesKey, "--rows", "100", "--size", "100", "--steps", "1,32", "--step-time", "2s",
		"--target", fmt.Sprint(target), "--backoff", "20ms", "--backoff-min", "5ms", "--backoff-max", "200ms",
		"--retries", "50").CombinedOutput()
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
	if _, err := fmt.Sscanf(strings.Replace(lines[1], "%", "", 1), "%d %g %g %g %g %g %d %d", &inFlight, &rate,
		&percent, &requests, &p50, &p99, &refused, &failed); err != nil {
		t.Fatalf("%q: %v", lines[1], err)
	}
	// The token bucket holds tokens for one second, which permits more in the first second.
	if inFlight != 32 || refused == 0 || failed > 0 || rate > 2*target {
		t.Errorf("with 32 in flight %.0f entities/s, %d refused, %d failed:\n%s", rate, refused, failed, out)
	}
}

// tablesAccounts sends requests for an account of the configuration and for another one.
func tablesAccounts(t *testing.T, address string) {
	for _, c := range []struct {
		account, key string
		known        bool
	}{{racesAccount, racesKey, true}, {racesAccount, azuretables.DevelopmentKey, false},
		{azuretables.DevelopmentAccount, azuretables.DevelopmentKey, false}} {
		a, err := client.New(address, c.account, c.key, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		r, err := a.Do(t.Context(), client.Request{Method: "GET", Path: "/Tables"})
		if err != nil || (r.Status == 200) != c.known {
			t.Errorf("account %s: %v %+v", c.account, err, r)
		}
	}
}

// tablesBusy inserts until the node reports that the partition has reached its target: 503 ServerBusy, with
// Retry-After. Another partition has a separate target, and refused inserts have no effect.
func tablesBusy(t *testing.T, address string) {
	c, err := client.New(address, racesAccount, racesKey, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(r client.Request) *client.Response {
		t.Helper()
		resp, err := c.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	if err := ask(client.Request{Method: "POST", Path: "/Tables",
		Body: []byte(`{"TableName":"Busy"}`)}).Err(201); err != nil {
		t.Fatal(err)
	}
	for n := range 5000 {
		r := ask(insert("Busy", fmt.Sprintf(`{"PartitionKey":"p","RowKey":"r%d"}`, n)))
		if r.Status == 204 {
			continue
		}
		after, err := strconv.Atoi(r.Header.Get("Retry-After"))
		if r.Status != 503 || r.Code() != "ServerBusy" || err != nil || after < 1 {
			t.Fatalf("insert %d: %v, Retry-After %q", n, r.Err(204), r.Header.Get("Retry-After"))
		}
		if err := ask(insert("Busy", `{"PartitionKey":"q","RowKey":"r"}`)).Err(204); err != nil {
			t.Errorf("another partition: %v", err)
		}
		time.Sleep(time.Duration(after) * time.Second)
		if err := ask(get("Busy", "p", fmt.Sprint("r", n))).Err(404); err != nil {
			t.Errorf("a refused insert: %v", err)
		}
		return
	}
	t.Error("5,000 inserts and no refusal")
}
