//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// Each step of TestLossOfADatacenter must end within this time.
const lossStep = 60 * time.Second

// TestLossOfADatacenter starts three data centers of two nodes, one data center after the other, and kills all nodes of
// the first one, which created the ring. The others change the schema and roles, admit a node, and remove the dead ones.
func TestLossOfADatacenter(t *testing.T) {
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 6, Spare: 1,
		YAML: []string{"authenticator: AllowAllAuthenticator", "authorizer: AllowAllAuthorizer"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	all := slices.Concat(ring.Servers, ring.Spare)
	for i, dc := range []string{"dc1", "dc1", "dc2", "dc2", "dc3", "dc3", "dc2"} {
		host, _, err := net.SplitHostPort(all[2].Address)
		if err != nil {
			t.Fatal(err)
		}
		if err := all[i].Configure("datacenter: "+dc, "health_address: "+healthAddress(t, all[i])); err != nil {
			t.Fatal(err)
		}
		if i > 2 { // the seeds of all nodes include one of a data center that survives
			all[i].AddFlags("--seeds", internodeOf(t, ring, 0)+","+internodeOf(t, ring, 2))
		}
		_ = host
	}
	for i, s := range ring.Servers {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitAnswer(lossStep); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := ring.WaitAgreed(lossStep); err != nil {
		t.Fatal(err)
	}
	awaitVoters(t, ring.Servers[5], map[string]int{"dc1": 2, "dc2": 2, "dc3": 2}, 5)
	survivor := ring.Servers[2]
	change(t, survivor.Address, "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 2, 'dc2': 2, 'dc3': 2}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	for k := range 20 {
		change(t, survivor.Address, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d)", k, k))
	}

	began := time.Now()
	ids := []string{}
	for _, s := range ring.Servers[:2] {
		ids = append(ids, memberID(t, survivor, s))
		s.Kill()
	}
	await(t, "both nodes are down", func() bool { return len(down(t, survivor)) == 2 })
	change(t, survivor.Address, "CREATE TABLE ks.after (k int PRIMARY KEY)", "ALTER TABLE ks.t ADD w int")
	change(t, ring.Servers[5].Address, "CREATE ROLE r WITH LOGIN = true")
	t.Logf("schema and roles changed after %v", time.Since(began))

	joins := ring.Spare[0]
	if err := joins.Start(); err != nil {
		t.Fatal(err)
	}
	if err := joins.WaitAnswer(lossStep); err != nil {
		t.Fatalf("%v\n%s\n%s", err, joins.Log(), mustCtl(t, survivor, "operations"))
	}
	await(t, "the join ends", func() bool { return stateOf(t, survivor).operations == 0 })
	t.Logf("a node joined after %v", time.Since(began))
	for _, id := range ids {
		out := mustCtl(t, survivor, "removenode", id)
		t.Logf("%s removed after %v %s", id, time.Since(began), strings.TrimSpace(out))
	}
	awaitVoters(t, survivor, map[string]int{"dc2": 3, "dc3": 2}, 5)
	change(t, joins.Address, "DROP TABLE ks.after")
	c, err := cqlclient.Dial(joins.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Query("SELECT k FROM ks.t", cqlclient.Options{Consistency: 6}) // LOCAL_QUORUM
	if err != nil || r.Err != nil || len(r.Rows) != 20 {
		t.Errorf("%d rows, %v, %v", len(r.Rows), err, r.Err)
	}
}
