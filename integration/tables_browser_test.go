//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/process"
)

// seen is a page's view of one request; Hidden means that the browser revealed nothing.
type seen struct {
	Status                     int
	Body, Etag, Partition, Row string
	Hidden                     string
}

// browserReport is the result of the page of drivers/tables-browser.
type browserReport struct {
	Origin                                      string
	Pages                                       []seen
	Entity, Unsigned, Insert, Remove, Forbidden seen
}

// TestTablesInABrowser makes Chromium read a table with a SAS from a page of another origin, which the service's CORS
// rules allow, and from a third one, which they do not.
func TestTablesInABrowser(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	chromium := filepath.Join(root, ".tools/chromium")
	if !exists(chromium) {
		missing(t, "Chromium", fmt.Sprintf(installHint, "chromium"))
	}
	page := filepath.Join(root, "integration/drivers/tables-browser/page.html")
	ring := sharedRing(t)
	a := askTables(t, ring)
	a.create("Browsed")
	for p := range 5 {
		var changes []client.Change
		for r := range 70 {
			changes = append(changes, client.Change{Method: "POST",
				Body: fmt.Appendf(nil, `{"PartitionKey":"p%d","RowKey":"r%03d","n":%d}`, p, r, p*70+r)})
		}
		a.must(p, client.Transaction("Browsed", changes), 202)
	}
	allowed, denied := servePage(t, page), servePage(t, page)
	properties := func(rules string) {
		t.Helper()
		a.must(0, client.Request{Method: "PUT", Path: "/", Query: "restype=service&comp=properties",
			ContentType: "application/xml",
			Body:        []byte("<StorageServiceProperties><Cors>" + rules + "</Cors></StorageServiceProperties>")},
			202)
	}
	properties("<CorsRule><AllowedOrigins>" + allowed.url + "</AllowedOrigins>" +
		"<AllowedMethods>GET,DELETE</AllowedMethods>" +
		"<AllowedHeaders>accept,x-ms-*,dataserviceversion,if-match</AllowedHeaders>" +
		"<ExposedHeaders>x-ms-*,etag</ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>")
	defer properties("")
	endpoint := ring.Servers[1].Tables + "/" + azuretables.DevelopmentAccount + "/Browsed"
	fragment := "#" + url.Values{"table": {endpoint}, "sas": {readSAS(t, "Browsed")}}.Encode()

	r := allowed.visit(t, chromium, fragment)
	total, last := 0, -1
	for _, p := range r.Pages {
		var body struct{ Value []struct{ N int } }
		if p.Status != 200 || json.Unmarshal([]byte(p.Body), &body) != nil {
			t.Fatalf("a page: %+v", p)
		}
		for _, e := range body.Value {
			if e.N != last+1 {
				t.Fatalf("entity %d after %d", e.N, last)
			}
			total, last = total+1, e.N
		}
	}
	if total != 350 || len(r.Pages) != 4 {
		t.Errorf("%d entities on %d pages, want 350 on 4", total, len(r.Pages))
	}
	if r.Entity.Status != 200 || !strings.Contains(r.Entity.Body, `"n":0`) || !strings.HasPrefix(r.Entity.Etag, "W/") {
		t.Errorf("an entity: %+v", r.Entity)
	}
	if r.Unsigned.Status == 200 || r.Insert.Hidden == "" || r.Forbidden.Hidden == "" {
		t.Errorf("without a signature %+v, by a method %+v and with a header %+v that no rule allows", r.Unsigned,
			r.Insert, r.Forbidden)
	}
	// The rules permit the request, the SAS does not permit the deletion, and the page may read the refusal.
	if r.Remove.Status != 403 || !strings.Contains(r.Remove.Body, "AuthorizationPermissionMismatch") {
		t.Errorf("a delete with a SAS for reading: %+v", r.Remove)
	}

	s := denied.visit(t, chromium, fragment)
	for _, x := range append(s.Pages, s.Entity, s.Unsigned, s.Insert, s.Remove, s.Forbidden) {
		if x.Hidden == "" || x.Status != 0 || x.Body != "" {
			t.Errorf("a page of another origin sees %+v", x)
		}
	}
	a.must(2, get("Browsed", "p0", "r000"), 200)
	a.must(2, get("Browsed", "x", "y"), 404)
}

// readSAS returns a signature by the Azure SDK for reading a table.
func readSAS(t *testing.T, name string) string {
	t.Helper()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "./tables-go", "sas", name)
	cmd.Dir = filepath.Join(root, "integration", "drivers")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	return strings.TrimSpace(string(out))
}

// site is an origin with the page, which sends its report to it.
type site struct {
	url     string
	reports chan browserReport
}

func servePage(t *testing.T, page string) *site {
	s := &site{reports: make(chan browserReport, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, page) })
	mux.HandleFunc("POST /result", func(w http.ResponseWriter, r *http.Request) {
		var report browserReport
		if err := json.NewDecoder(r.Body).Decode(&report); err == nil {
			s.reports <- report
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// groupEnds fails the test if a process of a process group that was killed still runs after some seconds.
func groupEnds(t *testing.T, group int) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if err := syscall.Kill(-group, 0); errors.Is(err, syscall.ESRCH) || allDefunct(group) {
			return
		}
		if time.Now().After(end) {
			t.Errorf("processes of group %d still run", group)
			return
		}
	}
}

// allDefunct reports whether every process of a group has ended. Some containers have no init process that collects
// those whose parent has ended.
func allDefunct(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // state, parent, group, …
		if f := strings.Fields(rest); len(f) > 2 && f[2] == strconv.Itoa(group) && f[0] != "Z" {
			return false
		}
	}
	return len(stats) > 0
}

// visit opens the page in a new browser and waits for its report.
func (s *site) visit(t *testing.T, chromium, fragment string) browserReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := []string{"--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--remote-debugging-port=0", "--user-data-dir=" + t.TempDir()}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // Chromium refuses to set the sandbox up as root
	}
	cmd := exec.CommandContext(ctx, chromium, append(args, s.url+"/"+fragment)...)
	// Some systems start Chromium by a shell script, so all processes of its group are killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var complaints strings.Builder
	cmd.Stderr, cmd.WaitDelay = &complaints, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { groupEnds(t, cmd.Process.Pid) })
	var report browserReport
	select {
	case report = <-s.reports:
		cancel()
		_ = cmd.Wait() // it was killed
	case <-ctx.Done():
		_ = cmd.Wait()
		t.Fatalf("the page did not report:\n%s", complaints.String())
	}
	if report.Origin != s.url {
		t.Fatalf("the page reports from %s, not %s", report.Origin, s.url)
	}
	return report
}
