//go:build integration

package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// copied is the number of rows that COPY reads and writes.
const copied = 100_000

// shell executes statements and commands of cqlsh at the nodes of an address, as a user does with cqlsh -f.
type shell struct {
	t       *testing.T
	path    string
	address string
	dir     string
	env     []string
}

// newShell returns cqlsh with a directory for its files.
func newShell(t *testing.T, address string) shell {
	t.Helper()
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, ".tools/python/bin/cqlsh")
	if !exists(path) {
		missing(t, "cqlsh", fmt.Sprintf(installHint, "python"))
	}
	dir := t.TempDir()
	return shell{t: t, path: path, address: address, dir: dir, env: append(os.Environ(), "HOME="+dir)}
}

// run executes the text and returns the output and the errors together, and whether cqlsh reported no error.
func (s shell) run(text string) (out string, ok bool) {
	s.t.Helper()
	file := filepath.Join(s.dir, "run.cql")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.path, "--encoding=utf-8", "--no-color", "--request-timeout=60", host, port, "-f",
		file)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, s.env, 5*time.Second
	b, err := cmd.CombinedOutput()
	return shellWarning.ReplaceAllString(string(b), ""), err == nil
}

// shellWarning matches cqlsh's note about another minor version of the server.
var shellWarning = regexp.MustCompile(`(?m)^WARNING: cqlsh was built against .*\n`)

// must executes the text and fails the test if cqlsh reports an error.
func (s shell) must(text string) string {
	s.t.Helper()
	out, ok := s.run(text)
	if !ok {
		s.t.Fatalf("cqlsh failed on\n%s\n%s", text, out)
	}
	return out
}

// expect checks that the output contains texts in this order.
func (s shell) expect(out string, texts ...string) {
	s.t.Helper()
	rest := out
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			s.t.Fatalf("cqlsh did not print %q after the text before it:\n%s", text, out)
		}
		rest = after
	}
}

// shellAddress returns a node of the shared ring, or the Cassandra node that CQLD_ORACLE names: the tests pass there,
// too.
func shellAddress(t *testing.T) string {
	if oracle := os.Getenv("CQLD_ORACLE"); oracle != "" {
		return oracle
	}
	return sharedRing(t).Servers[1].Address
}

// shellKeyspace creates a keyspace that is dropped at the end of the test.
func shellKeyspace(t *testing.T, address, name string) {
	t.Helper()
	c, err := cqlclient.Dial(address, 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	keyspace(t, c, name, 1)
}

// TestCqlshCopy loads rows with COPY FROM, unloads them with COPY TO, and compares the files.
func TestCqlshCopy(t *testing.T) {
	s := newShell(t, shellAddress(t))
	shellKeyspace(t, s.address, "copied")
	var lines []string
	for i := range copied {
		lines = append(lines, fmt.Sprintf(`%d,%d,%d,"text, %d über",%d`, i/20, i%20, i*1000003, i, i%7))
	}
	in, out := filepath.Join(s.dir, "in.csv"), filepath.Join(s.dir, "out.csv")
	if err := os.WriteFile(in, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const columns = "copied.t (k, c, b, s, v)"
	text := s.must("CREATE TABLE copied.t (k int, c int, b bigint, s text, v varint, PRIMARY KEY (k, c));\n" +
		"COPY " + columns + " FROM '" + in + "' WITH NUMPROCESSES = 2 AND CHUNKSIZE = 2000;\n" +
		"COPY " + columns + " TO '" + out + "' WITH NUMPROCESSES = 2;\n")
	s.expect(text, fmt.Sprint(copied, " rows imported from 1 files in "),
		fmt.Sprint(copied, " rows exported to 1 files in "))
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n")), "\n")
	sort.Strings(got)
	sort.Strings(lines)
	if len(got) != len(lines) {
		t.Fatalf("%d rows are in the file that COPY wrote, of %d", len(got), len(lines))
	}
	for i := range got {
		if got[i] != lines[i] {
			t.Fatalf("COPY wrote %q, want %q", got[i], lines[i])
		}
	}
}

// TestCqlshCommands checks the commands that cqlsh executes itself, with the answers that it prints at Cassandra.
func TestCqlshCommands(t *testing.T) {
	s := newShell(t, shellAddress(t))
	shellKeyspace(t, s.address, "shell")
	source := filepath.Join(s.dir, "source.cql")
	err := os.WriteFile(source, []byte("-- a comment\nINSERT INTO t (k, v) VALUES (1, 10); /* two; */ INSERT INTO t "+
		"(k, v)\nVALUES (2, 20);\nSELECT v FROM t WHERE k = 2;\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	out := s.must("USE shell;\nCREATE TABLE t (k int PRIMARY KEY, v int);\nCREATE TABLE p (k int, c int, PRIMARY " +
		"KEY (k, c));\n" +
		"SOURCE '" + source + "'\nEXPAND ON\nSELECT * FROM t WHERE k = 1;\nEXPAND OFF\nPAGING 2\n" +
		"BEGIN BATCH INSERT INTO p (k, c) VALUES (1, 1); INSERT INTO p (k, c) VALUES (1, 2); INSERT INTO p (k, c) " +
		"VALUES (1, 3); APPLY BATCH;\n" +
		"SELECT * FROM p;\nPAGING OFF\nPAGING\nCONSISTENCY\nCONSISTENCY QUORUM\nCONSISTENCY\nSERIAL " +
		"CONSISTENCY\nSERIAL CONSISTENCY LOCAL_SERIAL\n" +
		"SERIAL CONSISTENCY\nINSERT INTO t (k, v) VALUES (1, 11) IF NOT EXISTS;\nCONSISTENCY SERIAL\nSELECT v FROM " +
		"t WHERE k = 1;\n" +
		"CONSISTENCY ONE\nSHOW VERSION\nSHOW HOST\nSHOW REPLICAS 5 shell\nLOGIN user 'password'\nSELECT JSON * FROM " +
		"t WHERE k = 1;\n")
	s.expect(out, "\n v\n----\n 20\n\n(1 rows)", "EXPAND set to ON", "@ Row 1\n---+----\n k | 1\n v | 10\n",
		"EXPAND set to OFF", "Page size: 2",
		" k | c\n---+---\n 1 | 1\n 1 | 2\n 1 | 3\n\n(3 rows)", "PAGING set to OFF", "PAGING is OFF",
		"Current consistency level is ONE.",
		"Consistency level set to QUORUM.", "Current consistency level is QUORUM.",
		"Current serial consistency level is SERIAL.",
		"Serial consistency level set to LOCAL_SERIAL.", "Current serial consistency level is LOCAL_SERIAL.",
		" [applied] | k | v\n-----------+---+----\n     False | 1 | 10\n", "Consistency level set to SERIAL.",
		"\n v\n----\n 10\n", "Consistency level set to ONE.",
		"[cqlsh ", " | CQL spec 3.4.", " | Native protocol v5]", "Connected to ", " at "+s.address, "['", "']",
		` {"k": 1, "v": 10}`)
	if out, ok := s.run("SELECT nothing FROM shell.t;"); ok ||
		!strings.Contains(out, `InvalidRequest: Error from server: code=2200 [Invalid query] message="Undefined column name nothing in table shell.t"`) {
		t.Errorf("a statement with an error: %v\n%s", ok, out)
	}
}

// TestCqlshTracing traces statements at QUORUM and shows their session again.
func TestCqlshTracing(t *testing.T) {
	for _, c := range []struct {
		name    string
		address func(t *testing.T) string
	}{
		{"ring of four", func(t *testing.T) string { return sharedRing(t).Servers[1].Address }},
		// system_traces has two replicas, and cqlsh reads it at the level of the statement.
		{"ring of one", func(t *testing.T) string {
			return startRing(t,
				process.Options{Nodes: 1}).Servers[0].Address
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShell(t, c.address(t))
			shellKeyspace(t, s.address, "traced")
			out := s.must("USE traced;\nCREATE TABLE t (k int PRIMARY KEY, v int);\nCONSISTENCY QUORUM\nTRACING " +
				"ON\nINSERT INTO t (k, v) VALUES (1, 2);\n" +
				"SELECT * FROM t WHERE k = 1;\nTRACING OFF\nSELECT * FROM t WHERE k = 1;\n")
			s.expect(out, "TRACING set to ON", "Tracing session: ", "Execute CQL3 query",
				"INSERT INTO t (k, v) VALUES (1, 2)", "Request complete",
				" 1 | 2", "Tracing session: ", "SELECT * FROM t WHERE k = 1", "Request complete", "TRACING set to OFF")
			sessions := regexp.MustCompile(`Tracing session: (\S+)`).FindAllStringSubmatch(out, -1)
			if len(sessions) != 2 {
				t.Fatalf("%d sessions, want 2:\n%s", len(sessions), out)
			}
			s.expect(s.must("SHOW SESSION "+sessions[1][1]+"\n"), "Tracing session: "+sessions[1][1],
				"SELECT * FROM t WHERE k = 1", "Request complete")
		})
	}
}

// described creates every kind of object that a keyspace has.
const described = `CREATE TYPE described.address (street text, zip int);
CREATE TYPE described.person (name text, home frozen<address>, "Tags" set<text>);
CREATE TABLE described.plain (k int, c timeuuid, s int static, v text, n map<text, frozen<person>>, l list<int>, t tuple<int, text>,
	e vector<float, 3>, "Mixed" double, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'it''s plain' AND default_time_to_live = 1000;
CREATE TABLE described.counts (k text PRIMARY KEY, n counter);
CREATE TABLE described.t (k int, j int, c text, v text, m map<text, int>, s set<int>, l frozen<list<int>>, w text, e vector<float, 3>, PRIMARY KEY ((k, j), c));
CREATE INDEX by_text ON described.t (v);
CREATE INDEX ON described.t (KEYS(m));
CREATE INDEX by_entry ON described.t (ENTRIES(m));
CREATE INDEX by_element ON described.t (s);
CREATE INDEX by_list ON described.t (FULL(l));
CREATE INDEX ON described.t (j);
CREATE CUSTOM INDEX by_word ON described.t (w) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'mode': 'CONTAINS',
	'case_sensitive': 'false', 'analyzer_class': 'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer'};
CREATE CUSTOM INDEX by_vector ON described.t (e) USING 'StorageAttachedIndex' WITH OPTIONS = {'similarity_function': 'euclidean'};
CREATE CUSTOM INDEX by_clustering ON described.t (c) USING 'StorageAttachedIndex';
CREATE MATERIALIZED VIEW described.by_v AS SELECT k, j, c, v FROM described.t WHERE v IS NOT NULL AND k IS NOT NULL AND j IS NOT NULL AND c IS NOT NULL
	PRIMARY KEY (v, k, j, c) WITH CLUSTERING ORDER BY (k DESC, j ASC, c ASC) AND comment = 'a view';
CREATE FUNCTION described.plus(a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a + b;';
CREATE FUNCTION described.half(a bigint) RETURNS NULL ON NULL INPUT RETURNS double LANGUAGE java AS $$return a / 2.0;$$;
CREATE AGGREGATE described.total(int) SFUNC plus STYPE int INITCOND 0;
CREATE AGGREGATE described."Mean"(int) SFUNC plus STYPE int INITCOND 5;
`

// TestCqlshDescribe describes a schema with every kind of object, and executes the description in a keyspace that does
// not exist.
func TestCqlshDescribe(t *testing.T) {
	s := newShell(t, shellAddress(t))
	shellKeyspace(t, s.address, "described")
	s.must(described)
	before := s.must("DESCRIBE KEYSPACE described\n")
	s.expect(before, "CREATE KEYSPACE described", "CREATE TYPE described.address", "CREATE TYPE described.person",
		"CREATE TABLE described.counts",
		"CREATE MATERIALIZED VIEW described.by_v")
	parts := s.must("USE described;\nDESCRIBE TABLE t\nDESCRIBE INDEX by_vector\nDESCRIBE INDEX by_word\nDESCRIBE " +
		"MATERIALIZED VIEW by_v\n" +
		"DESCRIBE FUNCTION plus\nDESCRIBE AGGREGATE total\nDESCRIBE TYPE person\nDESCRIBE by_v\nDESCRIBE " +
		"by_clustering\nDESCRIBE TYPES\nDESCRIBE FUNCTIONS\nDESCRIBE AGGREGATES\nDESCRIBE TABLES\n")
	s.expect(parts, "CREATE TABLE described.t", "CREATE CUSTOM INDEX by_vector", "CREATE CUSTOM INDEX by_word",
		"CREATE MATERIALIZED VIEW described.by_v",
		"CREATE FUNCTION described.plus(a int, b int)", "CREATE AGGREGATE described.total(int)",
		"CREATE TYPE described.person",
		"CREATE MATERIALIZED VIEW described.by_v", "CREATE CUSTOM INDEX by_clustering", "address  person",
		"half(bigint)", "plus(int, int)", "total", "counts")
	if schema := s.must("DESCRIBE SCHEMA\n"); !strings.Contains(schema, strings.TrimSpace(before)) {
		t.Error("DESCRIBE SCHEMA does not contain the description of the keyspace")
	}
	if out, ok := s.run("DESCRIBE TABLE described.nothing\n"); ok ||
		!strings.Contains(out, "Table 'nothing' not found in keyspace 'described'") {
		t.Errorf("DESCRIBE of a table that does not exist: %v\n%s", ok, out)
	}
	s.must("DROP KEYSPACE described;\n")
	s.must(before)
	if after := s.must("DESCRIBE KEYSPACE described\n"); before != after {
		t.Errorf("the description, executed again, is described as\n%s\nwant\n%s", after, before)
	}
}
