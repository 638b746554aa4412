package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/auth"
	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/cqlclient"
	"cqld/internal/syncbuf"
	"cqld/node/access"
	"cqld/node/config"
	"cqld/node/control"
)

// accountClient sends requests to one node, with one key of an account.
type accountClient struct {
	t *testing.T
	c *client.Client
}

func (r *inProcess) account(i int, name, key string) accountClient {
	r.t.Helper()
	c, err := client.New("http://"+r.nodes[i].opts.TablesListener().String(), name, key, 2)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return accountClient{r.t, c}
}

// do sends a request, and returns the status and the code of an error.
func (a accountClient) do(method, path, body string) string {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	resp, err := a.c.Do(ctx, client.Request{Method: method, Path: path, Body: []byte(body)})
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprint(resp.Status, " ", resp.Code()))
}

func (a accountClient) expect(want, method, path, body string) {
	a.t.Helper()
	if got := a.do(method, path, body); got != want {
		a.t.Errorf("%s %s: %s, want %s", method, path, got, want)
	}
}

func (a accountClient) refused() { // the key, or the account
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	if resp, err := a.c.Do(ctx, client.Request{Method: "GET", Path: "/Tables"}); err != nil || resp.Status != 403 ||
		!strings.Contains(string(resp.Body), "AuthenticationFailed") {
		a.t.Errorf("the key is still valid, or the error is another: %v %+v", err, resp)
	}
}

const (
	noPermission = "403 AuthorizationPermissionMismatch"
	oneEntity    = "/Orders(PartitionKey='p',RowKey='1')"
)

// TestAccountsAreRoles creates an account in CQL and grants its role permissions one after the other. Both keys, on
// both nodes, have the rights of the role over the rows that CQL reads and writes.
func TestAccountsAreRoles(t *testing.T) {
	var log syncbuf.Buffer
	r := openNodes(t, 193, 2, func(o *config.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.FS, o.Audit.Enabled = vfs.Default, true
		o.Access = config.Access{Authenticator: config.PasswordAuthenticator, Authorizer: config.CassandraAuthorizer,
			Superuser: "admin", SuperuserPassword: "of the admin"}
	})
	admin := r.mustLogIn(0, "admin", "of the admin")
	created := r.query(admin, "CREATE ROLE shopper WITH LOGIN = true AND PASSWORD = 'p' AND OPTIONS = "+
		"{'tables_account': 'shop'}")
	if len(created.Rows) != 1 || len(created.Rows[0]) != 3 {
		t.Fatalf("the keys: %q", created.Rows)
	}
	key1, key2 := string(created.Rows[0][1]), string(created.Rows[0][2])
	one, two := r.account(0, "shop", key1), r.account(1, "shop", key2)
	r.query(admin, "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	one.expect(noPermission, "POST", "/Tables", `{"TableName":"Orders"}`)
	r.query(admin, "GRANT CREATE ON KEYSPACE shop TO shopper")
	one.expect("201", "POST", "/Tables", `{"TableName":"Orders"}`)
	// a role may use the tables that it has created
	two.expect("201", "POST", "/Orders", `{"PartitionKey":"p","RowKey":"1","Item":"bread"}`)
	if rows := r.query(r.mustLogIn(1, "shopper", "p"), `SELECT * FROM shop."orders"`).Rows; len(rows) != 1 {
		t.Errorf("by CQL: %q", rows)
	}
	for _, statement := range []string{"REVOKE ALL ON KEYSPACE shop FROM shopper",
		"REVOKE ALL ON TABLE shop.orders FROM shopper"} {
		r.query(admin, statement)
	}
	two.expect(noPermission, "GET", oneEntity, "")
	r.query(admin, "GRANT SELECT ON TABLE shop.orders TO shopper")
	two.expect("200", "GET", oneEntity, "")
	one.expect(noPermission, "PUT", oneEntity, `{"Item":"milk"}`)
	r.query(admin, "CREATE ROLE writer")
	r.query(admin, "GRANT MODIFY ON TABLE shop.orders TO writer")
	r.query(admin, "GRANT writer TO shopper")
	one.expect("204", "PUT", oneEntity, `{"Item":"milk"}`)
	r.query(admin, "REVOKE writer FROM shopper")
	one.expect(noPermission, "PUT", oneEntity, `{"Item":"tea"}`)
	r.query(admin, "ALTER ROLE shopper WITH LOGIN = false")
	two.expect("403 AuthorizationFailure", "GET", oneEntity, "")
	r.query(admin, "ALTER ROLE shopper WITH LOGIN = true")
	two.expect("200", "GET", oneEntity, "")
	r.account(0, azuretables.DevelopmentAccount, azuretables.DevelopmentKey).refused()
	checkAccountSecrets(t, r, admin, &log, key1, key2)
	r.query(admin, "DROP ROLE shopper")
	one.refused()
	two.refused()
}

// checkAccountSecrets checks that keys are only in the metadata log, and that the role is in the audit log.
func checkAccountSecrets(t *testing.T, r *inProcess, admin *cqlclient.Conn, log *syncbuf.Buffer, keys ...string) {
	t.Helper()
	given := access.NewTablesKey()
	text := "ALTER ROLE shopper WITH OPTIONS = {'tables_account': 'shop', 'tables_key1': '" + given + "'}"
	if _, err := send(admin, text, cqlclient.Options{Tracing: true}); err != nil {
		t.Fatal(err)
	}
	r.account(1, "shop", given).expect("200", "GET", oneEntity, "")
	if text = log.String(); text == "" {
		t.Error("the log is empty")
	}
	for _, statement := range []string{"LIST ROLES", "SELECT * FROM system_auth.roles", "DESCRIBE FULL SCHEMA",
		"SELECT * FROM system_traces.sessions", "SELECT * FROM system_traces.events"} {
		text += fmt.Sprintf("%s", r.query(admin, statement).Rows)
	}
	list, err := r.nodes[0].commands.Accounts.List(t.Context(), control.None{}, nil)
	text += fmt.Sprint(list, err)
	for _, key := range append(keys, given) {
		if strings.Contains(text, key) {
			t.Errorf("a key is visible")
		}
	}
	dir := r.nodes[0].audit.Settings().Dir
	r.nodes[0].audit.Disable(nil) // which writes all entries
	entries := readAudit(t, dir)
	if content := fmt.Sprint(entries); strings.Contains(content, given) || strings.Contains(content, keys[0]) {
		t.Error("a key is in the audit log")
	}
	e, ok := find(entries, "tables", "PUT /shop/Orders")
	if !ok || e.User != "shopper" || e.Keyspace != "shop" {
		t.Errorf("the audit log: %+v", e)
	}
}

// TestKeysAreRotatedUnderLoad rotates both keys of an account while clients of both nodes send requests. Clients that
// switch to the other key before theirs is rotated have no failed request. Once a rotation has returned, no node
// accepts the old key.
func TestKeysAreRotatedUnderLoad(t *testing.T) {
	r := openNodes(t, 194, 2, func(o *config.Options) { o.Join.NumTokens = 4 })
	ctx, n := t.Context(), r.nodes[0]
	if err := n.cluster.ProposeRoles(ctx, &auth.CreateRole{Name: "shopper",
		Settings: auth.RoleSettings{Login: new(bool)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.commands.Accounts.Create(ctx, control.TablesAccountArgs{Name: "shop", Role: "nobody"},
		nil); err == nil {
		t.Error("an account of a role that does not exist was created")
	}
	keys, err := n.commands.Accounts.Create(ctx, control.TablesAccountArgs{Name: "shop", Role: "shopper"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.account(0, "shop", keys.Key1).expect("403 AuthorizationFailure", "GET", "/Tables", "") // the role has no LOGIN
	login := true
	if err := n.cluster.ProposeRoles(ctx, &auth.AlterRole{Name: "shopper",
		Settings: auth.RoleSettings{Login: &login}}); err != nil {
		t.Fatal(err)
	}
	r.account(1, "shop", keys.Key2).expect("201", "POST", "/Tables", `{"TableName":"Orders"}`)
	var current atomic.Value // the key that clients use
	var mu sync.RWMutex      // a request holds it, so a switch waits for the requests with the old key
	current.Store(keys.Key1)
	var clients sync.WaitGroup
	done := make(chan struct{})
	for i := range 4 {
		clients.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-done:
					return
				default:
				}
				mu.RLock()
				a := r.account(i%2, "shop", current.Load().(string))
				got := a.do("POST", "/Orders", fmt.Sprintf(`{"PartitionKey":"p%d","RowKey":"%d"}`, i, k))
				mu.RUnlock()
				if got != "201" {
					t.Errorf("client %d, request %d: %s", i, k, got)
					return
				}
			}
		})
	}
	held := [2]string{keys.Key1, keys.Key2}
	for round := range 6 {
		rotated := round % 2 // clients switch to the other key first
		mu.Lock()
		current.Store(held[1-rotated])
		mu.Unlock()
		next, err := n.commands.Accounts.RotateKey(ctx, control.TablesAccountArgs{Name: "shop", Key: rotated + 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.nodes {
			r.account(i, "shop", held[rotated]).refused()
		}
		held[rotated] = next.Key1 + next.Key2 // one of them is empty
		for i := range r.nodes {
			r.account(i, "shop", held[rotated]).expect("200", "GET", "/Tables", "")
		}
	}
	close(done)
	clients.Wait()
	if _, err := n.commands.Accounts.Remove(ctx, control.TablesAccountArgs{Name: "shop"}, nil); err != nil {
		t.Fatal(err)
	}
	r.account(1, "shop", held[0]).refused()
	if got := r.account(1, azuretables.DevelopmentAccount, azuretables.DevelopmentKey).do("GET", "/Tables",
		""); got != "200" {
		t.Errorf("without other accounts, the development account: %s", got)
	}
}
