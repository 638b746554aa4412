//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/azuretables/client"
	"cqld/integration/process"
)

// TestTablesFaults injects faults into one ring. It is a single test because the start of a ring takes time.
func TestTablesFaults(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 4})
	a := askTables(t, ring)
	t.Run("restart", func(t *testing.T) { tablesRestart(t, ring, a) })
	if !t.Failed() {
		t.Run("kill", func(t *testing.T) { tablesKills(t, ring, a) })
	}
}

const policyXML = `<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers><SignedIdentifier><Id>kept</Id><AccessPolicy><Start>2021-06-08T02:05:09.0000000Z</Start><Expiry>2021-06-08T03:10:09.0000000Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>`

// tablesRestart continues a query after all nodes were stopped and started; policies and properties persist.
func tablesRestart(t *testing.T, ring *process.Ring, a *tables) {
	a.t = t
	a.create("Restarts")
	for p := range 7 {
		var changes []client.Change
		for r := range 40 {
			changes = append(changes, client.Change{Method: "POST",
				Body: fmt.Appendf(nil, `{"PartitionKey":"p%d","RowKey":"r%02d","n":%d}`, p, r, p*40+r)})
		}
		a.must(p, client.Transaction("Restarts", changes), 202)
	}
	acl := client.Request{Method: "PUT", Path: "/Restarts", Query: "comp=acl", Body: []byte(policyXML),
		ContentType: "application/xml"}
	a.must(1, acl, 204)
	rule := `<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://kept.example.com</AllowedOrigins><AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>7</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>`
	properties := client.Request{Method: "PUT", Path: "/", Query: "restype=service&comp=properties",
		Body: []byte(rule), ContentType: "application/xml"}
	a.must(2, properties, 202)
	page := a.must(0, filtered("Restarts", "n ge 5", "$top=100"), 200)
	names := a.must(1, client.Request{Method: "GET", Path: "/Tables", Query: "$top=1&$filter=" +
		url.PathEscape("TableName ge 'A'")}, 200)
	ring.Stop()
	for _, s := range ring.Servers {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	seen := numbersOf(t, page)
	for node := 1; continuation(page) != "" && node < 10; node++ {
		page = a.must(node, filtered("Restarts", "n ge 5", "$top=100"+continuation(page)), 200)
		seen = append(seen, numbersOf(t, page)...)
	}
	if len(seen) != 275 || seen[0] != 5 || seen[274] != 279 {
		t.Errorf("%d entities over a restart: %v", len(seen), seen)
	}
	if next := names.Header.Get("x-ms-continuation-NextTableName"); next != "" {
		a.must(2, client.Request{Method: "GET", Path: "/Tables", Query: "NextTableName=" + url.QueryEscape(next)}, 200)
	}
	acl.Method, acl.Body, acl.ContentType = "GET", nil, ""
	if r := a.must(3, acl, 200); strings.TrimPrefix(string(r.Body), "\ufeff") != policyXML {
		t.Errorf("the policy after a restart: %s", r.Body)
	}
	properties.Method, properties.Body, properties.ContentType = "GET", nil, ""
	if r := a.must(0, properties, 200); !strings.Contains(string(r.Body), "http://kept.example.com") {
		t.Errorf("the properties after a restart: %s", r.Body)
	}
	if r := a.must(3, client.Request{Method: "GET", Path: "/Tables('restarts')"},
		200); !strings.Contains(string(r.Body), `"Restarts"`) {
		t.Errorf("the name after a restart: %s", r.Body)
	}
}

// numbersOf returns the property n of the entities.
func numbersOf(t *testing.T, r *client.Response) []int {
	t.Helper()
	var page struct{ Value []struct{ N int } }
	if err := json.Unmarshal(r.Body, &page); err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, e := range page.Value {
		out = append(out, e.N)
	}
	return out
}

// journal contains the outcomes of the writers' requests.
type journal struct {
	sync.Mutex
	acked   map[string]int // "partition/row" → the last acknowledged value
	maybe   map[string]int // → a value that may have been written
	refused []string
}

// tablesKills kills a node, and then all, while entities are inserted and updated through all nodes: each acknowledged
// one exists afterwards. (Azurite writes a snapshot every five seconds and loses later changes.)
func tablesKills(t *testing.T, ring *process.Ring, a *tables) {
	a.t = t
	a.create("Kills")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j := &journal{acked: map[string]int{}, maybe: map[string]int{}}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() { j.write(ctx, a, i) })
	}
	at := func(d time.Duration) { time.Sleep(d) }
	at(1500 * time.Millisecond)
	one := ring.Servers[2]
	one.Kill()
	at(1500 * time.Millisecond)
	during := j.count()
	for end := time.Now().Add(20 * time.Second); j.count() == during; at(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing was acknowledged while one of four nodes was dead")
		}
	}
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	at(time.Second)
	for _, s := range ring.Servers {
		s.Kill()
	}
	cancel()
	wg.Wait()
	for _, s := range ring.Servers {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	j.judge(t, a)
}

func (j *journal) count() int {
	j.Lock()
	defer j.Unlock()
	return len(j.acked)
}

// write inserts entities, and updates each once, until ctx ends. Each writer has its own keys.
func (j *journal) write(ctx context.Context, a *tables, writer int) {
	for n := 0; ctx.Err() == nil; n++ {
		pk, rk := fmt.Sprintf("p%d", n%5), fmt.Sprintf("w%02d-%05d", writer, n)
		key := pk + "/" + rk
		for version, r := range []client.Request{
			insert("Kills", fmt.Sprintf(`{"PartitionKey":%q,"RowKey":%q,"v":0}`, pk, rk)),
			{Method: "PATCH", Path: client.EntityPath("Kills", pk, rk), Body: []byte(`{"v":1}`), IfMatch: "*"},
		} {
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			resp, err := a.nodes[(writer+n)%4].Do(limited, r)
			cancel()
			j.Lock()
			if err == nil && resp.Status == 204 {
				j.acked[key] = version
				j.Unlock()
				continue
			}
			j.maybe[key] = version
			if err == nil && resp.Status < 500 {
				j.refused = append(j.refused, fmt.Sprintf("%s version %d: %v", key, version, resp.Err()))
			}
			j.Unlock()
			time.Sleep(20 * time.Millisecond)
			break
		}
	}
}

// judge reads all entities, a part at each node.
func (j *journal) judge(t *testing.T, a *tables) {
	t.Helper()
	got := map[string]int{}
	for p := range 5 {
		for more := ""; ; {
			r := a.must(p, filtered("Kills", fmt.Sprintf("PartitionKey eq 'p%d'", p), more), 200)
			var page struct {
				Value []struct {
					PartitionKey, RowKey string
					V                    int `json:"v"`
				}
			}
			if err := json.Unmarshal(r.Body, &page); err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Value {
				got[e.PartitionKey+"/"+e.RowKey] = e.V
			}
			if more = continuation(r); more == "" {
				break
			}
		}
	}
	lost, stale, made := 0, 0, 0
	for key, v := range j.acked {
		found, ok := got[key]
		switch maybe, unsure := j.maybe[key]; {
		case !ok:
			lost++
		case found != v && !(unsure && found == maybe):
			stale++
		}
	}
	for key := range got {
		if _, ok := j.acked[key]; !ok {
			if _, ok := j.maybe[key]; !ok {
				made++
			}
		}
	}
	if lost+stale+made > 0 {
		t.Errorf("of %d acknowledged entities %d are lost, %d are not as acknowledged, %d were never written",
			len(j.acked), lost, stale, made)
	}
	if len(j.acked) < 200 {
		t.Errorf("only %d entities were acknowledged", len(j.acked))
	}
	// A client that lost an answer may retry and be refused because the entity exists, but these writers do not retry.
	for i, s := range j.refused {
		if i < 5 {
			t.Errorf("refused: %s", s)
		}
	}
	t.Logf("%d acknowledged, %d in doubt", len(j.acked), len(j.maybe))
}
