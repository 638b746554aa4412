//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
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
// the first one, which created the ring. The others change the schema and roles, admit a node, and remove the dead
// ones.
func TestLossOfADatacenter(t *testing.T) {
	t.Parallel()
	binary, dir := cqld(t)
	dir = filepath.Join(dir, t.Name())
	password := filepath.Join(dir, "password")
	ring, err := process.NewRing(binary, dir, process.Options{Nodes: 6, Spare: 1, Dial: asSuperuser,
		Flags: []string{"--superuser", superuser, "--superuser-password-file", password},
		YAML:  []string{"authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(password, []byte(superuserPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	all := slices.Concat(ring.Servers, ring.Spare)
	seeds := internode(t, all[0]) + "," + internode(t, all[2]) // one of them is in a data center that survives
	for i, dc := range []string{"dc1", "dc1", "dc2", "dc2", "dc3", "dc3", "dc2"} {
		if err := all[i].Configure("datacenter: " + dc); err != nil {
			t.Fatal(err)
		}
		if i > 2 {
			all[i].AddFlags("--seeds", seeds)
		}
	}
	startInTurn(t, ring.Servers, answers)
	if err := ring.WaitAgreed(lossStep); err != nil {
		t.Fatal(err)
	}
	awaitVoters(t, ring.Servers[5], []int{1, 2, 2}, "dc1", "dc2", "dc3")
	survivor := ring.Servers[2]
	change(t, survivor, "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 2, "+
		"'dc2': 2, 'dc3': 2}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	for k := range 20 {
		change(t, survivor, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %d)", k, k))
	}

	began := time.Now()
	var ids []string
	for _, s := range ring.Servers[:2] {
		ids = append(ids, internode(t, s))
		s.Kill()
	}
	await(t, "both nodes are down", func() bool { return upIn(membersOf(t, survivor)) == 4 })
	change(t, survivor, "CREATE TABLE ks.after (k int PRIMARY KEY)", "ALTER TABLE ks.t ADD w int")
	change(t, ring.Servers[5], "CREATE ROLE r WITH LOGIN = true")
	t.Logf("schema and roles changed after %v", time.Since(began))

	joins := ring.Spare[0]
	if err := joins.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the node that joins serves", func() bool { return answers(joins) })
	await(t, "the join ends", func() bool { return stateOf(t, survivor).operations == 0 })
	t.Logf("a node joined after %v", time.Since(began))
	for _, id := range ids {
		out := mustCtl(t, survivor, "removenode", id)
		t.Logf("%s removed after %v %s", id, time.Since(began), strings.TrimSpace(out))
	}
	awaitVoters(t, survivor, []int{2, 3}, "dc2", "dc3")
	change(t, joins, "DROP TABLE ks.after")
	c, err := asSuperuser(joins.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Query("SELECT k FROM ks.t", cqlclient.Options{Consistency: localQuorum})
	if err != nil || r.Err != nil || len(r.Rows) != 20 {
		t.Errorf("%+v, %v", r, err)
	}

	// Without a majority, the remaining nodes report it.
	for _, s := range ring.Servers[3:6] {
		s.Kill()
	}
	await(t, "info names the missing majority", func() bool {
		return strings.Contains(mustCtl(t, survivor, "info"), "of the metadata voters are alive and 3 are needed")
	})
}

// localQuorum is the number of LOCAL_QUORUM in the protocol.
const localQuorum = 6

// member is a part of the output of "ctl members --json".
type member struct {
	Datacenter string
	Up, Voter  bool
}

func membersOf(t *testing.T, s *process.Server) []member {
	t.Helper()
	var status struct{ Members []member }
	if err := json.Unmarshal([]byte(mustCtl(t, s, "members", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	return status.Members
}

func upIn(members []member) (n int) {
	for _, m := range members {
		if m.Up {
			n++
		}
	}
	return n
}

// awaitVoters waits until the numbers of voters in the data centers, ascending, are those wanted.
func awaitVoters(t *testing.T, s *process.Server, want []int, datacenters ...string) {
	t.Helper()
	await(t, fmt.Sprintf("%v voters in %v", want, datacenters), func() bool {
		got := make([]int, len(datacenters))
		for _, m := range membersOf(t, s) {
			if i := slices.Index(datacenters, m.Datacenter); m.Voter && i >= 0 {
				got[i]++
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

func asSuperuser(address string) (*cqlclient.Conn, error) {
	return cqlclient.DialAs(address, 4, superuser, superuserPassword)
}

func answers(s *process.Server) bool {
	c, err := asSuperuser(s.Address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// change executes statements on a server.
func change(t *testing.T, s *process.Server, statements ...string) {
	t.Helper()
	c, err := asSuperuser(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, statement := range statements {
		if a, err := c.Query(statement, cqlclient.Options{}); err != nil || a.Err != nil {
			t.Fatalf("%s: %+v, %v\n%s\n%s", statement, a, err, mustCtl(t, s, "members"), s.Log())
		}
	}
}

// startInTurn starts servers, each when the one before answers.
func startInTurn(t *testing.T, servers []*process.Server, answers func(*process.Server) bool) {
	t.Helper()
	for i, s := range servers {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, fmt.Sprintf("node %d serves", i+1), func() bool { return answers(s) })
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(lossStep); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", lossStep, what)
		}
	}
}

// internode returns the address of a server for other nodes: process.NewRing places it next to the one for clients.
func internode(t *testing.T, s *process.Server) string {
	t.Helper()
	at, err := netip.ParseAddrPort(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	port := at.Port() + 1
	if at.Port() == 9042 {
		port = 7000
	}
	return netip.AddrPortFrom(at.Addr(), port).String()
}
