package node

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cqld/auth"
	"cqld/integration/cqlclient"
	"cqld/internal/await"
	"cqld/node/config"
)

// openSecure opens nodes with authentication and authorization, whose superuser is admin.
func openSecure(t *testing.T, subnet byte, n int) *inProcess {
	t.Helper()
	return openNodes(t, subnet, n, func(o *config.Options) {
		o.Access = config.Access{Authenticator: config.PasswordAuthenticator, Authorizer: config.CassandraAuthorizer,
			NetworkAuthorizer: config.CassandraNetworkAuthorizer, CIDRAuthorizer: config.CassandraCIDRAuthorizer,
			Superuser: "admin", SuperuserPassword: "of the admin"}
	})
}

// logIn connects to node i as a role.
func (r *inProcess) logIn(i int, version byte, role, password string) (*cqlclient.Conn, error) {
	var c *cqlclient.Conn
	var err error
	// A handshake that the machine delays for too long is refused as overloaded, and clients repeat it.
	await.Reached(time.Minute, func() bool {
		c, err = cqlclient.DialAs(r.nodes[i].opts.Native().String(), version, role, password)
		return err == nil || !strings.Contains(err.Error(), "try again later")
	})
	if err == nil {
		r.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func (r *inProcess) mustLogIn(i int, role, password string) *cqlclient.Conn {
	r.t.Helper()
	c, err := r.logIn(i, 5, role, password)
	if err != nil {
		r.t.Fatalf("%s: %v", role, err)
	}
	return c
}

func TestLoginOnAllNodes(t *testing.T) {
	r := openSecure(t, 218, 2)
	admin := r.mustLogIn(0, "admin", "of the admin")
	r.query(admin, "CREATE ROLE ada WITH PASSWORD = 'first' AND LOGIN = true")
	for i := range r.nodes {
		for version := byte(3); version <= 5; version++ {
			if _, err := r.logIn(i, version, "ada", "first"); err != nil {
				t.Errorf("node %d, v%d: %v", i, version, err)
			}
			for _, wrong := range []string{"ada", "unknown"} {
				_, err := r.logIn(i, version, wrong, "wrong")
				if want := "Provided username " + wrong + " and/or password are incorrect"; err == nil ||
					!strings.Contains(err.Error(), want) {
					t.Errorf("node %d, v%d: %v, want %s", i, version, err, want)
				}
			}
		}
	}
	// Changes are in force on both nodes when the statement returns.
	open := []*cqlclient.Conn{r.mustLogIn(0, "ada", "first"), r.mustLogIn(1, "ada", "first")}
	users := map[string]int{}
	for _, row := range r.query(admin, "SELECT username FROM system_views.clients").Rows {
		users[string(row[0])]++
	}
	if users["admin"] != 1 || users["ada"] == 0 {
		t.Errorf("system_views.clients shows the users %v", users)
	}
	page := httptest.NewRecorder()
	r.nodes[0].metrics.Page().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"cqld_login_success_total ", `cqld_login_refusals_total{reason="unknown role"} 3`} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("no metric %s in %s", want, page.Body)
		}
	}
	r.query(admin, "ALTER ROLE ada WITH PASSWORD = 'second'")
	for i, c := range open {
		if _, err := r.logIn(i, 5, "ada", "first"); err == nil {
			t.Errorf("node %d accepts the old password", i)
		}
		if _, err := r.logIn(i, 5, "ada", "second"); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
		r.query(c, "SELECT key FROM system.local") // as in Cassandra, open connections continue
	}
	r.query(admin, "ALTER ROLE ada WITH LOGIN = false")
	r.end(open)
	if _, err := r.logIn(1, 5, "ada", "second"); err == nil ||
		!strings.Contains(err.Error(), "ada is not permitted to log in") {
		t.Error(err)
	}
	r.query(admin, "ALTER ROLE ada WITH LOGIN = true")
	open = []*cqlclient.Conn{r.mustLogIn(0, "ada", "second"), r.mustLogIn(1, "ada", "second")}
	r.query(admin, "DROP ROLE ada")
	r.end(open)
	if _, err := r.logIn(1, 5, "ada", "second"); err == nil || !strings.Contains(err.Error(), "Provided username ada") {
		t.Error(err)
	}
	r.query(admin, "SELECT key FROM system.local")

	stats := r.nodes[0].access.Logins()
	if stats.Successes < 6 || stats.Failures < 7 || r.nodes[1].access.Logins().Unauthorized != 1 {
		t.Errorf("%+v", stats)
	}
}

// end waits until connections have ended.
func (r *inProcess) end(conns []*cqlclient.Conn) {
	r.t.Helper()
	for i, c := range conns {
		await.Until(r.t, fmt.Sprintf("node %d ends the connection", i), func() bool {
			_, err := send(c, "SELECT key FROM system.local", cqlclient.Options{})
			if err == nil {
				r.t.Errorf("node %d serves the connection", i)
			}
			refusal := &refused{}
			return err != nil && !errors.As(err, &refusal)
		})
	}
}

func TestRestrictedLogins(t *testing.T) {
	r := openSecure(t, 219, 1)
	admin := r.mustLogIn(0, "admin", "of the admin")
	r.query(admin, "CREATE ROLE ada WITH PASSWORD = 'x' AND LOGIN = true AND ACCESS TO DATACENTERS {'datacenter1'}")
	ada := r.mustLogIn(0, "ada", "x")
	r.query(ada, "SELECT key FROM system.local")
	refuses := func(c *cqlclient.Conn, want string) {
		t.Helper()
		_, err := send(c, "SELECT key FROM system.local", cqlclient.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// The group has no addresses of the client.
	if err := r.nodes[0].cluster.ProposeRoles(t.Context(), farGroup()); err != nil {
		t.Fatal(err)
	}
	r.query(admin, "ALTER ROLE ada WITH ACCESS FROM CIDRS {'far'}")
	refuses(ada, "You do not have access from this IP 127.0.0.1")
	refuses(r.mustLogIn(0, "ada", "x"), "You do not have access from this IP 127.0.0.1")
	if s := r.nodes[0].access.Logins(); s.Unauthorized != 1 {
		t.Errorf("%+v", s)
	}
	r.query(admin, "ALTER ROLE ada WITH ACCESS FROM ALL CIDRS")
	r.query(ada, "SELECT key FROM system.local")
}

func farGroup() auth.Change {
	return &auth.SetCIDRGroup{Name: "far", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
}
