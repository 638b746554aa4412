package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/cqlclient"
	"cqld/internal/syncbuf"
	"cqld/node/config"
	"cqld/node/control"
)

// auditEntry is an entry of the audit log.
type auditEntry struct {
	Protocol, Source, User, Type, Category, Keyspace, Scope, Operation, Batch, Outcome,
	Error string
}

// readAudit returns the entries in a directory.
func readAudit(t *testing.T, dir string) (all []auditEntry) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e auditEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		all = append(all, e)
	}
	return all
}

// find returns the first entry of a protocol whose operation begins with a prefix.
func find(all []auditEntry, protocol, prefix string) (auditEntry, bool) {
	i := slices.IndexFunc(all, func(e auditEntry) bool {
		return e.Protocol == protocol &&
			strings.HasPrefix(e.Operation, prefix)
	})
	if i < 0 {
		return auditEntry{}, false
	}
	return all[i], true
}

// The secrets of TestSecretsAppearNowhere. They contain no characters that encodings change.
const (
	secretAdmin     = "Zq9SuperuserZq9"
	secretWrong     = "Zq9WrongZq9"
	secretPassword  = "Zq9PasswordZq9"
	secretHash      = "Zq9HashZq9xxxxxxxxxxxxxxxxxxx"
	secretOption    = "Zq9OptionZq9"
	secretSignature = "Zq9SignatureZq9"
	secretKey       = "Zq9AccountKeyZq9" + "Zq9AccountKeyZq9" // base64 of 24 bytes
)

// secretStatements contain secrets. Some are not valid.
func secretStatements() []string {
	return []string{
		"CREATE ROLE app1 WITH PASSWORD = '" + secretPassword + "' AND LOGIN = true",
		"CREATE ROLE app2 WITH HASHED PASSWORD = '" + secretHash + "'",
		"ALTER ROLE app1 WITH PASSWORD = '" + secretPassword + "'",
		"CREATE USER app3 WITH PASSWORD '" + secretPassword + "' NOSUPERUSER",
		"CREATE ROLE app4 WITH OPTIONS = {'key1': '" + secretOption + "'}",
		"CREATE ROLE app5 WITH PASSWORD = '" + secretPassword + "' foo",
		"CREATE ROLE app5 WITH PASSWORD = '" + secretPassword,
		"CREATE ROLE app5 WITH PASSWRD = '" + secretPassword + "'",
		"CREATE ROLE app5 WITH PASSWORD = $$" + secretPassword + "$$ AND NONSENSE = 1",
		`CREATE ROLE app5 WITH PASSWORD = "` + secretPassword + `"`,
		"BEGIN BATCH CREATE ROLE app5 WITH PASSWORD = '" + secretPassword + "'; APPLY BATCH",
		"SELECT * FROM k.t WHERE password = '" + secretPassword + "'",
	}
}

// TestSecretsAppearNowhere sends passwords, hashes, account keys and signatures, and then searches everything of the
// node for them: its data directory with the audit log, its log at debug level, its traces, and error messages.
func TestSecretsAppearNowhere(t *testing.T) {
	var log syncbuf.Buffer
	r := openNodes(t, 180, 1, func(o *config.Options) {
		o.FS, o.Audit.Enabled = vfs.Default, true
		o.Access = config.Access{Authenticator: config.PasswordAuthenticator, Authorizer: config.CassandraAuthorizer,
			Superuser: "admin", SuperuserPassword: secretAdmin}
		o.Tables.Accounts = []azuretables.Account{{Name: "secretaccount", Key: secretKey, Role: "admin"}}
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	c := r.mustLogIn(0, "admin", secretAdmin)
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE k.t (a int PRIMARY KEY)")
	var seen bytes.Buffer // what clients are answered
	see := func(a *cqlclient.Answer, err error) *cqlclient.Answer {
		if err != nil {
			t.Fatal(err)
		}
		if a.Err != nil {
			seen.WriteString(a.Err.Error() + "\n")
		}
		return a
	}
	for _, text := range secretStatements() {
		see(c.Query(text, cqlclient.Options{Tracing: true}))
		if a := see(c.Prepare(text)); a.Prepared != nil {
			see(c.Execute(a.Prepared, cqlclient.Options{Tracing: true}))
		}
		see(c.Batch(0, []cqlclient.Statement{{Text: text}}, cqlclient.Options{Tracing: true}))
	}
	for _, text := range []string{"SELECT * FROM system_traces.sessions", "SELECT * FROM system_traces.events",
		"DESCRIBE FULL SCHEMA"} {
		for _, row := range see(c.Query(text, cqlclient.Options{})).Rows {
			seen.Write(bytes.Join(row, []byte{' '}))
		}
	}
	for _, role := range []string{"admin", "app1", "guest"} {
		if _, err := r.logIn(0, 4, role, secretWrong); err == nil {
			t.Errorf("%s logs in with a wrong password", role)
		}
	}
	r.mustLogIn(0, "app1", secretPassword) // the role was made
	sendTablesSecrets(t, r.nodes[0].opts.TablesListener().String())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	socket := control.DialSocket(filepath.Join(r.nodes[0].opts.DataDir, control.SocketName))
	if _, err := control.Call(ctx, socket, control.Flush, control.TablesArgs{}, nil); err != nil {
		t.Fatal(err)
	}
	if r.killed = map[*Node]bool{r.nodes[0]: true}; r.nodes[0].Close(ctx) != nil {
		t.Error("the node does not close")
	}
	checkSecrets(t, "responses", seen.Bytes())
	checkSecrets(t, "the log", []byte(log.String()))
	checkDirectory(t, r.nodes[0].opts.DataDir)
	entries := readAudit(t, filepath.Join(r.nodes[0].opts.DataDir, "audit"))
	for _, want := range [][2]string{{"cql", "CREATE ROLE app1 WITH PASSWORD = '*******' AND LOGIN = true"},
		{"cql", "LOGIN SUCCESSFUL"},
		{"cql", "LOGIN FAILURE"}, {"cql", "CREATE ROLE app5 WITH PASSWORD *******"},
		{"tables", "GET /secretaccount/T?sv=2019-02-02&sig=*******"},
		{"control", "flush"}} {
		if _, ok := find(entries, want[0], want[1]); !ok {
			t.Errorf("no entry of %v", want)
		}
	}
}

// sendTablesSecrets sends an account's key and signatures to a Tables server, some in requests that are not HTTP.
func sendTablesSecrets(t *testing.T, address string) {
	t.Helper()
	for _, path := range []string{"/secretaccount/T?sv=2019-02-02&sig=" + secretSignature, "/secretaccount/T?%53ig=" +
		secretSignature,
		"/nix/T?sig=" + secretSignature} {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	signed, err := client.New("http://"+address, "secretaccount", secretKey, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer signed.Close()
	if resp, err := signed.Do(t.Context(), client.Request{Method: "GET", Path: "/Tables"}); err != nil ||
		resp.Status != 200 {
		t.Fatal(resp, err)
	}
	for _, raw := range []string{"GET /secretaccount/T?sig=" + secretSignature + " nonsense\r\n\r\n", "sig=" +
		secretSignature + "\r\n\r\n",
		"GET /T HTTP/1.1\r\nAuthorization SharedKeyLite a:" + secretSignature + "\r\n\r\n"} {
		sock, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sock.Write([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		sock.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, _ = sock.Read(make([]byte, 4096)) // any answer
		sock.Close()
	}
}

func checkSecrets(t *testing.T, where string, content []byte) {
	t.Helper()
	for _, secret := range []string{secretAdmin, secretWrong, secretPassword, secretHash, secretOption,
		secretSignature, secretKey} {
		if at := bytes.Index(content, []byte(secret)); at >= 0 {
			t.Errorf("%s contains %s: %q", where, secret, content[max(0, at-100):min(len(content), at+50)])
		}
	}
}

// checkDirectory looks for secrets in the files of a directory.
func checkDirectory(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		files++
		checkSecrets(t, path, content)
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestRequestsAndOperationsAreRecorded checks the entries of Azure Tables and of `cqld ctl`.
func TestRequestsAndOperationsAreRecorded(t *testing.T) {
	r := openOperated(t, 181, 1)
	settings := operate(r, 0, control.SetAuditLog, control.AuditArgs{Enable: true,
		ExcludedCategories: &[]string{"prepare"}})
	if !settings.Enabled || !slices.Equal(settings.ExcludedCategories, []string{"prepare"}) ||
		!slices.Contains(settings.ExcludedKeyspaces, "system") {
		t.Errorf("%+v", settings)
	}
	c := r.tables(0)
	for _, request := range []client.Request{
		{Method: "POST", Path: "/Tables", Body: []byte(`{"TableName":"races"}`)},
		{Method: "POST", Path: "/races", Body: []byte(`{"PartitionKey":"a","RowKey":"b","N":1}`)},
		{Method: "GET", Path: "/races(PartitionKey='a',RowKey='b')"},
		{Method: "GET", Path: "/races(PartitionKey='a',RowKey='c')"},
		{Method: "DELETE", Path: "/Tables('races')"},
	} {
		if _, err := r.ask(c, request); err != nil {
			t.Fatal(err)
		}
	}
	r.query(r.connect(0), "SELECT * FROM shop.orders")
	r.check([]refusedOperation{
		refuses(control.SetAuditLog, control.AuditArgs{Enable: true, IncludedCategories: &[]string{"NIX"}},
			control.Invalid, `"NIX" is not one of [QUERY`),
		refuses(control.SetAuditLog, control.AuditArgs{Enable: true, Logger: new("Nix")}, control.Invalid,
			`the logger "Nix" is unknown`),
		refuses(control.Repair, control.RepairArgs{TablesArgs: control.TablesArgs{Keyspace: "nowhere"}},
			control.Invalid, "nowhere"),
	})
	if s := operate(r, 0, control.AuditLogOf, control.None{}); !s.Enabled {
		t.Error("a refused change has disabled the audit log")
	}
	operate(r, 0, control.SetAuditLog, control.AuditArgs{})
	if s := operate(r, 0, control.AuditLogOf, control.None{}); s.Enabled {
		t.Error("the audit log is not disabled")
	}
	r.query(r.connect(0), "SELECT * FROM shop.orders WHERE customer = 'unrecorded' AND id = 1")
	account := azuretables.DevelopmentAccount
	for _, want := range []auditEntry{
		{Protocol: "control", Type: "CONTROL_OPERATION", Category: "OTHER", Operation: "setauditlog",
			Outcome: "success"},
		{Protocol: "tables", Type: "CREATE_TABLE", Category: "DDL", Keyspace: account, Operation: "POST /" + account +
			"/Tables", Outcome: "success"},
		{Protocol: "tables", Type: "UPDATE", Category: "DML", Keyspace: account, Scope: "races", Operation: "POST /" +
			account + "/races", Outcome: "success"},
		{Protocol: "tables", Type: "SELECT", Category: "QUERY", Keyspace: account, Scope: "races", Operation: "GET /" +
			account + "/races(PartitionKey='a',RowKey='b')", Outcome: "success"},
		{Protocol: "tables", Type: "REQUEST_FAILURE", Category: "ERROR", Keyspace: account, Scope: "races",
			Operation: "GET /" + account + "/races(PartitionKey='a',RowKey='c')", Outcome: "failure"},
		{Protocol: "tables", Type: "DROP_TABLE", Category: "DDL", Keyspace: account, Scope: "races",
			Operation: "DELETE /" + account + "/Tables('races')", Outcome: "success"},
		{Protocol: "cql", Type: "SELECT", Category: "QUERY", Keyspace: "shop", Scope: "orders",
			Operation: "SELECT * FROM shop.orders", Outcome: "success"},
		{Protocol: "control", Type: "REQUEST_FAILURE", Category: "ERROR", Operation: "repair", Outcome: "failure"},
		{Protocol: "control", Type: "CONTROL_OPERATION", Category: "OTHER", Operation: `setauditlog {"enable":false}`,
			Outcome: "success"},
	} {
		got, ok := find(readAudit(t, settings.Dir), want.Protocol, want.Operation)
		if !ok {
			t.Errorf("no entry of %s %s", want.Protocol, want.Operation)
			continue
		}
		if want.Operation, want.Source = got.Operation, got.Source; want.Protocol == "tables" {
			want.User = account
		} else if want.Protocol == "cql" {
			want.User = "anonymous"
		}
		if (got.Error == "") != (want.Outcome == "success") || want.Protocol != "control" && got.Source == "" {
			t.Errorf("%+v", got)
		}
		if want.Error = got.Error; got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if _, ok := find(readAudit(t, settings.Dir), "cql", "SELECT * FROM shop.orders WHERE customer = 'unrecorded'"); ok {
		t.Error("a disabled audit log records")
	}
}
