package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/auth"
	"cqld/integration/cqlclient"
	"cqld/internal/syncbuf"
	"cqld/node/access"
	"cqld/node/config"
	"cqld/node/control"
)

// withRoles turns on authentication and authorization, with cassandra as the first superuser.
func withRoles(o *config.Options) {
	o.Tables.Port = 0
	o.Access = config.Access{Authenticator: config.PasswordAuthenticator, Authorizer: config.CassandraAuthorizer,
		NetworkAuthorizer: config.CassandraNetworkAuthorizer,
		CIDRAuthorizer:    config.CassandraCIDRAuthorizer, CIDRForSuperusers: true, Superuser: "cassandra",
		SuperuserPassword: "cassandra"}
}

// dialAs logs in to a node. On a slow machine a verification may take longer than a client may wait, so it tries again
// if the node is overloaded.
func dialAs(n *Node, user, password string) (c *cqlclient.Conn, err error) {
	const overloaded = 0x1001
	for range 10 {
		c, err = cqlclient.DialAs(n.opts.Native().String(), 5, user, password)
		var answer *cqlclient.Error
		if !errors.As(err, &answer) || answer.Code != overloaded {
			break
		}
	}
	return c, err
}

// connectAs connects to a node's CQL port and logs in; the password is the name.
func (r *inProcess) connectAs(i int, user string) *cqlclient.Conn {
	r.t.Helper()
	c, err := dialAs(r.nodes[i], user, user)
	if err != nil {
		r.t.Fatalf("log in to node %d as %s: %v", i, user, err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// TestRoleChangesAreInForceOnEveryNode checks, without waiting, that permissions are in force on each node when GRANT
// and REVOKE return on one, also for prepared statements, and that a restarted node enforces them.
func TestRoleChangesAreInForceOnEveryNode(t *testing.T) {
	r := openNodes(t, 61, 3, func(o *config.Options) {
		withRoles(o)
		o.FS = vfs.NewCrashableMem()
	})
	admin := r.connectAs(0, "cassandra")
	r.query(admin, "CREATE ROLE app WITH PASSWORD = 'app' AND LOGIN = true")
	r.query(admin, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	r.query(admin, "CREATE TABLE k.t (a int PRIMARY KEY)")
	var apps []*cqlclient.Conn
	var prepared []*cqlclient.Prepared
	for i := range r.nodes {
		c := r.connectAs(i, "app")
		a, err := c.Prepare("SELECT a FROM k.t")
		if err != nil || a.Err != nil {
			t.Fatal(err, a.Err)
		}
		apps, prepared = append(apps, c), append(prepared, a.Prepared)
	}
	check := func(at string, want bool) {
		t.Helper()
		for i, c := range apps {
			a, err := c.Execute(prepared[i], cqlclient.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if allowed := a.Err == nil; allowed != want {
				t.Fatalf("%s: node %d allowed %v: %v", at, i, allowed, a.Err)
			}
			if !want && (a.Err.Code != 0x2100 || a.Err.Message != "User app has no SELECT permission on <table k.t> "+
				"or any of its parents") {
				t.Fatalf("%s: node %d: %v", at, i, a.Err)
			}
		}
	}
	check("before GRANT", false)
	for round, on := range []string{"k.t", "KEYSPACE k", "ALL TABLES IN KEYSPACE k", "ALL KEYSPACES", "k.t"} {
		r.query(r.connectAs(round%3, "cassandra"), "GRANT SELECT ON "+on+" TO app")
		check("after GRANT on "+on, true)
		r.query(r.connectAs((round+1)%3, "cassandra"), "REVOKE SELECT ON "+on+" FROM app")
		check("after REVOKE on "+on, false)
	}
	r.query(admin, "CREATE ROLE readers")
	r.query(admin, "GRANT SELECT ON k.t TO readers")
	r.query(admin, "GRANT readers TO app")
	check("as member of a role", true)

	encoded := func(i int) string {
		b, err := auth.Encode(r.nodes[i].access.Roles())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := encoded(0)
	r.kill(2, nil)
	if encoded(2) != before || encoded(1) != before {
		t.Error("the nodes have different roles")
	}
	r.connectAs(2, "app")
}

// TestRolesOfOpenConnections checks that changes of roles affect connections that are open.
func TestRolesOfOpenConnections(t *testing.T) {
	r := openNodes(t, 62, 1, withRoles)
	admin := r.connectAs(0, "cassandra")
	for _, role := range []string{"dropped", "barred", "elsewhere", "outside"} {
		r.query(admin, fmt.Sprintf("CREATE ROLE %s WITH PASSWORD = '%[1]s' AND LOGIN = true", role))
	}
	const text = "SELECT key FROM system.local"
	refused := func(c *cqlclient.Conn) string {
		_, err := send(c, text, cqlclient.Options{})
		if err == nil {
			return ""
		}
		return err.Error()
	}
	dropped, barred, elsewhere, outside := r.connectAs(0, "dropped"), r.connectAs(0, "barred"),
		r.connectAs(0, "elsewhere"), r.connectAs(0, "outside")
	for _, c := range []*cqlclient.Conn{dropped, barred, elsewhere, outside} {
		if err := refused(c); err != "" {
			t.Fatal(err)
		}
	}
	r.query(admin, "DROP ROLE dropped")
	r.query(admin, "ALTER ROLE barred WITH LOGIN = false")
	if refused(dropped) == "" || refused(barred) == "" {
		t.Error("a connection of a dropped role, or of one that may no longer log in, is served")
	}
	far := netip.MustParsePrefix("192.0.2.0/24")
	for _, change := range []auth.Change{&auth.SetCIDRGroup{Name: "far", CIDRs: []netip.Prefix{far}},
		&auth.AlterRole{Name: "elsewhere", Settings: auth.RoleSettings{Datacenters: &auth.Access{Restricted: true,
			Names: []string{"other"}}}}} {
		if err := r.nodes[0].cluster.ProposeRoles(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	r.query(admin, "ALTER ROLE outside WITH ACCESS FROM CIDRS {'far'}")
	if err := refused(elsewhere); !strings.Contains(err, "You do not have access to this datacenter (datacenter1)") {
		t.Error(err)
	}
	if err := refused(outside); !strings.Contains(err, "You do not have access from this IP 127.0.0.1") {
		t.Error(err)
	}
	r.query(admin, "ALTER ROLE outside WITH ACCESS FROM ALL CIDRS")
	r.query(admin, "ALTER ROLE elsewhere WITH ACCESS TO ALL DATACENTERS")
	if err := refused(elsewhere) + refused(outside); err != "" {
		t.Error(err)
	}
	if got := r.query(admin, "SELECT salted_hash FROM system_auth.roles WHERE role = 'outside'").Rows; len(got) != 1 ||
		!strings.HasPrefix(string(got[0][0]), "$2a$10$") {
		t.Errorf("salted_hash for a superuser: %q", got)
	}
	r.query(admin, "GRANT SELECT ON system_auth.roles TO outside")
	for _, text := range []string{"SELECT salted_hash FROM system_auth.roles WHERE role = 'outside'",
		"SELECT max(salted_hash) FROM system_auth.roles",
		"SELECT salted_hash FROM system_auth.roles WHERE role = 'outside' AND salted_hash = null ALLOW FILTERING"} {
		a, err := send(outside, text, cqlclient.Options{})
		if err == nil && (len(a.Rows) > 1 || len(a.Rows) == 1 && a.Rows[0][0] != nil) {
			t.Errorf("%s: a hash is visible to a role that is no superuser: %q", text, a.Rows)
		}
	}
}

// TestCreatorsHavePermissions checks that the creator of a keyspace, a table and a role has all permissions on it, and
// that they end when it is dropped.
func TestCreatorsHavePermissions(t *testing.T) {
	r := openNodes(t, 63, 1, withRoles)
	admin := r.connectAs(0, "cassandra")
	r.query(admin, "CREATE ROLE maker WITH PASSWORD = 'maker' AND LOGIN = true")
	r.query(admin, "GRANT CREATE ON ALL KEYSPACES TO maker")
	r.query(admin, "GRANT CREATE ON ALL ROLES TO maker")
	maker := r.connectAs(0, "maker")
	for _, text := range []string{
		"CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE k.t (a int PRIMARY KEY)",
		"INSERT INTO k.t (a) VALUES (1)", "ALTER TABLE k.t ADD b int", "CREATE ROLE made",
		"ALTER ROLE made WITH LOGIN = true", "GRANT SELECT ON k.t TO made",
		"DROP TABLE k.t", "CREATE TABLE k.t (a int PRIMARY KEY)", "SELECT * FROM k.t",
	} {
		r.query(maker, text)
	}
	r.query(admin, "REVOKE ALL ON KEYSPACE k FROM maker")
	r.query(maker, "SELECT * FROM k.t")
	r.query(maker, "DROP TABLE k.t")
	if grants := r.nodes[0].access.Roles().Grants("maker"); slices.ContainsFunc(grants,
		func(g auth.Grant) bool { return g.Resource == auth.Table("k", "t") }) {
		t.Errorf("grants after DROP TABLE: %v", grants)
	}
	r.query(admin, "CREATE TABLE k.t (a int PRIMARY KEY)")
	if _, err := send(maker, "SELECT * FROM k.t", cqlclient.Options{}); err == nil {
		t.Error("a grant on a dropped table is in force on a new table of the same name")
	}
	r.query(admin, "DROP KEYSPACE k")
	r.query(maker, "DROP ROLE made")
	if grants := r.nodes[0].access.Roles().Grants("maker"); len(grants) != 2 {
		t.Errorf("grants at the end: %v", grants)
	}
}

// TestFirstSuperuserHasGeneratedPassword checks the file with the password: its mode, that it logs in, and that a later
// start creates none.
func TestFirstSuperuserHasGeneratedPassword(t *testing.T) {
	o := config.Default()
	o.Listen.Address = netip.AddrFrom4([4]byte{127, 0, 64, 1})
	o.Listen.RPCAddress, o.DataDir = o.Listen.Address, filepath.Join(t.TempDir(), "data")
	o.Join.Seeds = []netip.AddrPort{o.Internode()}
	var log syncbuf.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	o.Tables.Port, o.Memory.CacheBytes = 0, 8<<20
	o.Access = config.Access{Authenticator: config.PasswordAuthenticator, Authorizer: config.CassandraAuthorizer}
	open := func() *Node {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		n, err := Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	closeNode := func(n *Node) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	n := open()
	path := filepath.Join(o.DataDir, access.PasswordFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	password, err := control.ReadPasswordFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), path) || strings.Contains(log.String(), password) {
		t.Errorf("the log does not name the file, or contains the password: %s", log.String())
	}
	for pw, want := range map[string]bool{password: true, "admin": false, "": false} {
		c, err := dialAs(n, config.DefaultSuperuser, pw)
		if (err == nil) != want {
			t.Errorf("log in with %q: %v", pw, err)
		}
		if err == nil {
			c.Close()
		}
	}
	closeNode(n)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	n = open()
	defer closeNode(n)
	if _, err := os.Stat(path); err == nil {
		t.Error("a later start generated another password")
	}
	if c, err := dialAs(n, config.DefaultSuperuser, password); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
}

// TestOperatorsResetSuperusersAndSetCIDRGroups uses the operations of `cqld ctl`: over TCP, superusers cannot be reset.
func TestOperatorsResetSuperusersAndSetCIDRGroups(t *testing.T) {
	r := openNodes(t, 65, 1, withRoles)
	n := r.nodes[0]
	r.query(r.connectAs(0, "cassandra"), "CREATE ROLE lost WITH PASSWORD = 'forgotten' AND LOGIN = false AND ACCESS "+
		"TO DATACENTERS {'datacenter1'}")
	local := control.DialSocket(filepath.Join(n.opts.DataDir, control.SocketName))
	reset, err := control.Call(t.Context(), local, control.ResetSuperuser, control.SuperuserArgs{Role: "lost"}, nil)
	if err != nil || reset.Password == "" {
		t.Fatal(reset, err)
	}
	c, err := dialAs(n, "lost", reset.Password)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r.query(c, "LIST USERS"); !n.access.Roles().IsSuperuser("lost") {
		t.Error("the role is no superuser")
	}
	if strings.Contains(r.log.String(), reset.Password) {
		t.Error("the log contains the password")
	}
	group := control.CIDRGroup{Name: "local", CIDRs: []string{"127.0.0.1/8", "2001:db8::/32"}}
	if _, err := control.Call(t.Context(), local, control.UpdateCIDRGroup, group, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Call(t.Context(), local, control.UpdateCIDRGroup,
		control.CIDRGroup{Name: "bad", CIDRs: []string{"1.2.3.4"}}, nil); err == nil ||
		err.Error() != "1.2.3.4 is not a valid CIDR String" {
		t.Error(err)
	}
	of, err := control.Call(t.Context(), local, control.CIDRGroupsOfIP, control.IPArgs{IP: "127.9.9.9"}, nil)
	if err != nil || len(of.Groups) != 1 || of.Groups[0].CIDRs[0] != "127.0.0.0/8" {
		t.Error(of, err)
	}
	if _, err := control.Call(t.Context(), local, control.DropCIDRGroup, control.CIDRGroupArgs{Name: "local"},
		nil); err != nil {
		t.Error(err)
	}
	if _, err := control.Call(t.Context(), local, control.DropCIDRGroup, control.CIDRGroupArgs{Name: "local"},
		nil); err == nil {
		t.Error("a group that does not exist was dropped")
	}
	if list, err := control.Call(t.Context(), local, control.ListCIDRGroups, control.CIDRGroupArgs{},
		nil); err != nil || len(list.Groups) != 0 {
		t.Error(list, err)
	}
}
