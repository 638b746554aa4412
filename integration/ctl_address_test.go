//go:build integration

package integration

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cqld/integration/process"
)

// TestControlAddress sends requests to a node's control_address: with the token all of them succeed, without it none
// does.
func TestControlAddress(t *testing.T) {
	binary, dir := cqld(t)
	l, err := net.Listen("tcp", "127.63.5.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()),
		process.Options{Nodes: 1, Flags: []string{"--control-address", address}})
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	token := filepath.Join(ring.Servers[0].Dir, "data", "control.token")
	wrong := filepath.Join(dir, t.Name(), "wrong.token")
	if err := os.WriteFile(wrong, []byte(strings.Repeat("x", 26)), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(file string) (string, error) {
		out, err := exec.CommandContext(t.Context(), binary, "ctl", "--host", address, "--token-file", file,
			"status").CombinedOutput()
		return string(out), err
	}
	if out, err := ask(token); err != nil || !strings.Contains(out, "\nUN ") {
		t.Errorf("with the token: %v\n%s", err, out)
	}
	if out, err := ask(wrong); err == nil || !strings.Contains(out, "the control token is missing or wrong") {
		t.Errorf("with a wrong token: %v\n%s", err, out)
	}
	secret, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Ask(ring.Servers[0].Address, "SELECT * FROM system.local", "SELECT * FROM system_traces.sessions",
		"CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}", "CREATE TABLE k.t (k int PRIMARY KEY)",
		"INSERT INTO k.t (k) VALUES (1) IF NOT EXISTS", "INSERT INTO k.t (k) VALUES (1) IF NOT EXISTS",
		"BEGIN BATCH INSERT INTO k.t (k) VALUES (2); INSERT INTO k.t (k) VALUES (3) APPLY BATCH"); err != nil {
		t.Fatal(err)
	}
	if r, err := http.Get(ring.Servers[0].Tables + "/devstoreaccount1/Tables"); err != nil || r.Body.Close() != nil ||
		r.StatusCode/100 != 4 {
		t.Fatal("an unauthenticated request was not refused:", err, r)
	}
	page, status := metricsOf(t, address, strings.TrimSpace(string(secret)))
	for _, want := range []string{`(?m)^cqld_ring_members 1$`, `(?m)^cqld_ring_members_up 1$`,
		`(?m)^cqld_client_requests_total [1-9]`,
		`(?m)^cqld_coordinator_events_total\{event="write_timeout"\} 0$`,
		`(?m)^cqld_table_reads_total\{keyspace="system_traces",table="sessions"\} [1-9]`,
		`(?m)^cqld_coordinator_cas_total\{protocol="cql",result="applied"\} 1$`,
		`(?m)^cqld_coordinator_cas_total\{protocol="cql",result="not_applied"\} 1$`,
		`(?m)^cqld_coordinator_requests_total\{kind="cas",protocol="cql"\} 2$`,
		`(?m)^cqld_coordinator_request_seconds_count\{kind="cas",protocol="cql"\} 2$`,
		`(?m)^cqld_coordinator_requests_total\{kind="batch",protocol="cql"\} 1$`,
		`(?m)^cqld_coordinator_events_total\{event="batch_stored"\} 1$`,
		`(?m)^cqld_tables_requests_total\{operation="list_tables",status="4xx"\} 1$`,
		`(?m)^cqld_tables_request_seconds_count\{operation="list_tables"\} 1$`,
		`(?m)^cqld_coordinator_cas_stage_seconds_total\{stage="commit"\} [0-9.e-]*[1-9]`,
		`(?m)^cqld_coordinator_cas_failures_total\{cause="queue"\} 0$`, `(?m)^cqld_storage_disk_full 0$`,
		`(?m)^go_goroutines `} {
		if !regexp.MustCompile(want).MatchString(page) {
			t.Errorf("/metrics, %d, does not have %s", status, want)
		}
	}
	if page, status := metricsOf(t, address, ""); status != http.StatusUnauthorized ||
		strings.Contains(page, "cqld_ring_members") {
		t.Errorf("/metrics without a token: %d", status)
	}
}

func metricsOf(t *testing.T, address, token string) (page string, status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), resp.StatusCode
}
