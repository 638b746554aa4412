//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
)

// ctlCase is a command with a regular expression for its table; its --json must be JSON unless it changes something.
type ctlCase struct {
	args string
	want string // regular expression
	once bool   // the command is not idempotent
}

const (
	someSize = `[\d.]+ (bytes|KiB|MiB)`
	someID   = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`
)

// ctlCases returns all commands that do no harm to a ring, in a sensible order.
func ctlCases(address, backups string) []ctlCase {
	a := regexp.QuoteMeta(address)
	return []ctlCase{
		{args: "status", want: `(?s)^Datacenter: datacenter1\n=+\nStatus=Up/Down\n\|/ State=Normal/Leaving/Joining/Moving\n--  Address +Load +Tokens  Owns \(effective\) +Host ID +Rack\n` +
			`(UN  127\.\S+ +` + someSize + ` +16 +100\.0% +` + someID + `  rack1\n){4}\n$`},
		{args: "status ctl", want: `Owns \(effective\)(?s).*100\.0%`},
		{args: "status system_auth", want: `2\d\.\d%`},
		{args: "ring", want: `(?s)^\nDatacenter: datacenter1\n==========\nAddress +Rack +Status +State +Load +Owns +Token\n +-?\d+\n(127\.\S+ +rack1 +Up +Normal +` + someSize + ` +100\.0% +-?\d+\n){64}\n`},
		{args: "describecluster", want: `(?s)Name: integration\n.*Schema versions:\n\t\t` + someID + `: \[127\.\S+, 127\.\S+, 127\.\S+, 127\.\S+\]\n.*Live: 4\n.*Unreachable: 0\n.*datacenter1 #Nodes: 4 #Down: 0\n.*ctl -> Replication class: SimpleStrategy \{replication_factor=4\}`},
		{args: "describering ctl", want: `(?s)^Schema Version:` + someID + `\nTokenRange: \n(\tTokenRange\(start_token:-?\d+, end_token:-?\d+, endpoints:\[127\.\S+, 127\.\S+, 127\.\S+, 127\.\S+\], rpc_endpoints:\[[^]]+\], endpoint_details:\[[^]]+\]\)\n){64}$`},
		{args: "getendpoints ctl t 7", want: `^(127\.\S+\n){4}$`},
		{args: "getseeds", want: `does not contain any remote node`},
		{args: "rebuild_index ctl t by_v", want: `^$`},
		{args: "viewbuildstatus ctl.t_by_v", want: `^ctl\.t_by_v has finished building\n$`},
		{args: "setindexbuildthroughput 32", want: `^$`},
		{args: "getindexbuildthroughput", want: `^Current index build throughput: 32 MiB/s\n$`},
		{args: "members", want: `(?s)(127\.\S+\n  ID:\d+\n  HOST_ID:` + someID +
			`\n  STATUS:Normal\n  ALIVE:true\n  DC:datacenter1\n.*){4}`},
		{args: "gossipinfo", want: `HOST_ID`},
		{args: "operations", want: `^The ring is not changing\.\n$`},
		{args: "info", want: `(?s)^ID +: ` + someID + `\n.*Mode +: NORMAL\nNative Transport active: true\nLoad +: ` +
			someSize + `\n.*Data Center +: datacenter1\n.*Corrupt files +: none\n.*see all 16 tokens\)\n$`},
		{args: "info -T", want: `(Token +: -?\d+\n){16}$`},
		{args: "version", want: `^ReleaseVersion: 5\.\S+\nBuild: \S+\n$`},
		{args: "flush", want: `^$`},
		{args: "compact ctl t", want: `^$`},
		{args: "tablestats ctl.t", want: `(?s)^Total number of tables: 1\n-+\nKeyspace: ctl\n\tRead Count: \d+\n\tWrite Count: 100\n\t\tTable: t\n\t\tSSTable count: 1\n.*Space used \(live\): [1-9]\d*\n\t\tNumber of partitions \(estimate\): \d+\n`},
		{args: "tablestats", want: `Keyspace: system_auth`},
		{args: "tablehistograms ctl t", want: `(?s)^ctl/t histograms\nPercentile +Read Latency \(micros\)\n50% +[1-9]\d*\.\d\d\n.*Max +[1-9]\d*\.\d\d\n`},
		{args: "ranges", want: `(?s)^Node +Ranges +Size +Of size +Reads/s .*(127\.\S+ +64 +` + someSize + ` .*%\n){4}\nRanges \(20 of 64\), .*\n *Start token +End token .*\n( *-?\d+ +-?\d+ +` + someSize + ` .*(127\.\d+\.\d+\.\d+,?){4}.*\n){20}$`},
		{args: "ranges --sort token -k 3", want: `(?s)Ranges \(3 of 64\).*Hottest key\n([^\n]+\n){3}$`},
		{args: "balance", want: `(?s)^Node +Tokens +Charge/s +Share +Size +Share +Above\n(127\.\S+ +\d+ .*%\n){4}` +
			`\nSteps that would make the nodes more even: \d`},
		{args: "range split 12345", want: `^$`, once: true},
		{args: "ranges -k 1", want: `Ranges \(1 of 65\)`},
		{args: "range merge 12345", want: `^$`, once: true},
		{args: "toppartitions ctl t 200", want: `Frequency of reads by partition:`},
		{args: "tpstats", want: `(?s)^Pool Name +Active +Limit +Pending +Completed +Refused\nNative-Transport-Requests +\d+ +\d+ +0 +[1-9]\d* +0\n.*Message type +Dropped\n`},
		{args: "compactionstats", want: `(?s)compactions in progress.*L6 +[1-9]\d* +` + someSize},
		{args: "netstats", want: `(?s)^Mode: NORMAL\n.*Read Repair Statistics:.*Hint Statistics:.*(` + a + `)?`},
		{args: "listpendinghints", want: `does not have hints`},
		{args: "clientstats", want: `Total connected clients: \d+`},
		{args: "gettimeout read", want: `^Current timeout for type read: 5000 ms\n$`},
		{args: "gettimeout counterwrite", want: `^Current timeout for type counterwrite: 5000 ms\n$`},
		{args: "gettimeout cascontention", want: `^Current timeout for type cascontention: 1000 ms\n$`},
		{args: "snapshot -t first ctl", once: true,
			want: `^Requested creating snapshot\(s\) for \[ctl\] with snapshot name \[first\]\n` +
				`Snapshot directory: /\S+/snapshots/first\n` +
				`A node cannot be restored from a snapshot of some keyspaces.\n$`},
		{args: "snapshot -t all", want: `\[all keyspaces\]`, once: true},
		{args: "listsnapshots", want: `(?s)^Snapshot Details:\nSnapshot name +Keyspace names +True size +Size on disk +Creation time\nall +\S*ctl\S* .*\nfirst +ctl +.*\nTotal TrueDiskSpaceUsed: ` + someSize},
		{args: "verify --throughput 0 ctl", want: `^[1-9]\d* files verified \(\d\S* \S+\), 0 corrupt\n$`, once: true},
		{args: "scrub", want: `^[1-9]\d* files verified \(\d\S* \S+\), 0 corrupt\n$`, once: true},
		{args: "verifysnapshot -t all", want: `^\d+ files verified, 0 problems\n$`, once: true},
		{args: "showsnapshot -t all", want: `(?s)^\{.*"CREATE TABLE ctl\.t `},
		{args: "import -t all plain t", want: `^$`, once: true},
		{args: "backup create --to " + backups + " --name first ctl", want: `(?s)^Name +: first\n.*Content : ctl\n`,
			once: true},
		{args: "backup list --at " + backups, want: `(?s)^Name .*\nfirst +.* ctl +4 .* complete\n$`},
		{args: "backup show --at " + backups + " first", want: `(?s)^Name +: first\nCluster : integration, 4 nodes\n`},
		{args: "backup verify --at " + backups + " first", want: `^\d+ files verified, 0 problems\n$`},
		{args: "restore --from " + backups + " --dry-run --fit-replication --table ctl.t --as ctl.restored",
			want: `(?s)^Would restore 1 table from backup first .*\n  ctl\.t as ctl\.restored\n$`},
		{args: "restore --from " + backups + " --dry-run --table ctl.t --replace",
			want: `(?s)^Would restore 1 table from backup first .*\n  ctl\.t, replacing the table\n$`},
		{args: "restore --from " + backups + " --table ctl.t --replace", once: true,
			want: `(?s)(^|\n)Restored 1 table from backup first .*\n  ctl\.t, replacing the table\n$`},
		{args: "backup schedule create --to " + backups + " --every 24h --at 02:30 --keep 7 nightly ctl",
			want: `^Created schedule nightly\n$`, once: true},
		{args: "backup schedule list", want: `(?s)^Name .*\nnightly +24h +02:30 +7 +ctl .* no backup yet\n$`},
		{args: "backup schedule drop nightly", want: `^Dropped schedule nightly\n$`, once: true},
		{args: "backup delete --at " + backups + " first", want: `^Deleted backup first\n`, once: true},
		{args: "upgrade status", want: `(?s)^Cluster version: 1\n.*There is nothing to finalize\.\n$`},
		{args: "upgrade finalize", want: `There is nothing to finalize\.\n$`},
		{args: "clearsnapshot -t all", want: `^Removed snapshot all\n$`, once: true},
		{args: "statushandoff", want: `^Hinted handoff is running\n$`},
		{args: "disablehandoff", want: `^$`},
		{args: "statushandoff", want: `^Hinted handoff is not running\n$`},
		{args: "enablehandoff", want: `^$`},
		{args: "setlogginglevel debug", want: `^$`},
		{args: "getlogginglevels", want: `^Logger Name +Log Level\nROOT +DEBUG\n$`},
		{args: "reloadssl", want: `^The node has no certificate files: TLS is off.\n$`},
		{args: "tables-account list", want: `^Account +Key1 +Key2 +Source +Consistency +Role\n$`},
		{args: "updatecidrgroup office 192.0.2.0/24 2001:db8::/32", want: `^$`},
		{args: "listcidrgroups", want: `^CIDR Groups:\noffice\n$`},
		{args: "listcidrgroups office", want: `^CIDRs:\n192\.0\.2\.0/24\n2001:db8::/32\n$`},
		{args: "getcidrgroupsofip 192.0.2.7", want: `^CIDR Groups:\noffice\n$`},
		{args: "dropcidrgroup office", want: `^Deleted CIDR group office\n$`, once: true},
		{args: "reset-superuser admin", want: `^Superuser admin has the password \S+\n$`},
		{args: "setlogginglevel info", want: `^$`},
		{args: "enableauditlog --excluded-categories PREPARE,query --blocking false", want: `^$`},
		{args: "getauditlog", want: `(?s)^enabled +true\nlogger +JSONAuditLogger\naudit_logs_dir +/\S+/audit\n.*\nblock +false\n.*\nexcluded_categories PREPARE,query\n`},
		{args: "disableauditlog", want: `^$`},
		{args: "getauditlog", want: `^enabled +false\n`},
		{args: "repair ctl", want: `^\d+ ranges compared, `},
		{args: "cleanup", want: `^$`},
		{args: "jobs", want: `(?s)repair.*cleanup|(?s)cleanup.*repair`},
		{args: "jobs list", want: `done`},
		{args: "disablebinary", want: `^$`},
		{args: "statusbinary", want: `^not running\n$`},
		{args: "enablebinary", want: `^$`},
		{args: "statusbinary", want: `^running\n$`},
		{args: "ready", want: `^ready\n$`},
	}
}

// ctlElsewhere returns the commands that other tests, or the end of this one, execute.
func ctlElsewhere() []string {
	return []string{"drain", "stopdaemon", "decommission", "removenode", "move", "rebuild", "abort", "killquery",
		"rotatekeys", "help"}
}

// TestControl executes every command of "cqld ctl" on a real ring and checks its table and its JSON.
func TestControl(t *testing.T) {
	archive := "file://" + t.TempDir()
	ring := startRing(t, process.Options{Nodes: 4, YAML: []string{"backup_log: " + archive}})
	s := ring.Servers[0]
	statements := []string{"CREATE KEYSPACE ctl WITH replication = {'class': 'SimpleStrategy', " +
		"'replication_factor': 4}", "CREATE TABLE ctl.t (k int PRIMARY KEY, v text)",
		// Tables with views take no imports.
		"CREATE KEYSPACE plain WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE plain.t (k int PRIMARY KEY)", "INSERT INTO plain.t (k) VALUES (1)"}
	for i := range 100 {
		statements = append(statements, fmt.Sprintf("INSERT INTO ctl.t (k, v) VALUES (%d, 'value')", i))
	}
	for i := range 100 {
		statements = append(statements, fmt.Sprintf("SELECT v FROM ctl.t WHERE k = %d", i))
	}
	statements = append(statements, "CREATE INDEX by_v ON ctl.t (v)",
		"CREATE MATERIALIZED VIEW ctl.t_by_v AS SELECT * FROM ctl.t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY "+
			"KEY (v, k)")
	if err := process.Ask(s.Address, statements...); err != nil {
		t.Fatal(err)
	}
	awaitView(t, s)
	run := map[string]bool{}
	host := s.Address[:strings.LastIndexByte(s.Address, ':')]
	for _, c := range ctlCases(host, "file://"+t.TempDir()) {
		args := strings.Fields(c.args)
		run[args[0]] = true
		out, err := ctl(t, s, args...)
		if err != nil || !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%s: %v\n%s\nwant %s", c.args, err, out, c.want)
		}
		if c.once {
			continue
		}
		out, err = ctl(t, s, append([]string{"--json"}, args...)...)
		if err != nil || !json.Valid([]byte(out)) || !strings.HasPrefix(out, "{") {
			t.Errorf("--json %s: %v\n%s", c.args, err, out)
		}
	}
	for _, name := range append(ctlElsewhere(), "gossipinfo") {
		run[name] = true
	}
	for _, name := range ctlNames(t, s) {
		if !run[name] {
			t.Errorf("nothing runs %s", name)
		}
	}
	controlMoments(t, s, archive)
	controlRefuses(t, s)
	controlDrains(t, ring)
}

// awaitView waits until all nodes have reported that the view is built.
func awaitView(t *testing.T, s *process.Server) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		out, err := ctl(t, s, "viewbuildstatus", "ctl", "t_by_v")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the view is not built: %v\n%s", err, out)
		}
	}
}

// controlMoments plans the restoration of a moment after a backup, which the nodes have archived.
func controlMoments(t *testing.T, s *process.Server, location string) {
	t.Helper()
	mustCtl(t, s, "backup", "create", "--to", location, "--name", "base", "ctl")
	until := ""
	for deadline := time.Now().Add(30 * time.Second); until == ""; time.Sleep(200 * time.Millisecond) {
		out := mustCtl(t, s, "backup", "show", "--at", location, "base")
		moments := regexp.MustCompile(`Moments : after \S+ until (\S+) can be restored`)
		if m := moments.FindStringSubmatch(out); m != nil {
			until = m[1]
		}
		if until == "" && time.Now().After(deadline) {
			t.Fatalf("no moment can be restored:\n%s", out)
		}
	}
	args := []string{"restore", "--from", location, "--at", until, "--table", "ctl.t", "--replace", "--dry-run"}
	want := `(?s)^Would restore 1 table from backup base .*\nState of ` + regexp.QuoteMeta(until) +
		`\n  ctl\.t, replacing the table\n$`
	if out := mustCtl(t, s, args...); !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("%q:\n%s\nwant %s", args, out, want)
	}
	if out := mustCtl(t, s, append([]string{"--json"}, args...)...); !json.Valid([]byte(out)) {
		t.Errorf("--json %q:\n%s", args, out)
	}
}

// ctlNames returns the commands in the help.
func ctlNames(t *testing.T, s *process.Server) (names []string) {
	out := mustCtl(t, s, "--help")
	for _, m := range regexp.MustCompile(`(?m)^  ctl ([a-z_-]+)`).FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	if len(names) < 30 {
		t.Errorf("the help lists %v only", names)
	}
	return names
}

// controlRefuses executes invalid commands.
func controlRefuses(t *testing.T, s *process.Server) {
	for args, want := range map[string]string{
		"status nowhere":                                    "does not exist",
		"describering system":                               "is local to each node",
		"getendpoints ctl t notint":                         "notint",
		"getendpoints ctl none 1":                           "table ctl.none does not exist",
		"flush nowhere":                                     "does not exist",
		"snapshot -t ../x":                                  "is not a valid snapshot name",
		"snapshot -t first":                                 "snapshot first already exists",
		"clearsnapshot":                                     "Specify snapshot name or --all",
		"clearsnapshot -t none":                             "snapshot none does not exist",
		"verifysnapshot -t none":                            "snapshot none does not exist",
		"showsnapshot -t none":                              "snapshot none does not exist",
		"import -t none ctl t":                              "snapshot none does not exist",
		"rotatekeys":                                        "the node does not encrypt its files",
		"import -t first ctl t":                             "it has materialized views",
		"enableauditlog --included-categories NIX":          `"NIX" is not one of`,
		"enableauditlog --archive-command /bin/x":           "settings never execute commands",
		"enableauditlog --logger Nix":                       `the logger "Nix" is unknown`,
		"enableauditlog --blocking maybe":                   "use true or false",
		"setlogginglevel loud":                              "not one of debug, info, warn, error",
		"ranges --count=-1":                                 "must not be negative",
		"toppartitions ctl t 0":                             "must be more than 0",
		"killquery 18446744073709551615":                    "is not in progress on this node",
		"killquery SELECT":                                  "is not the thread_id of a query",
		"removenode unknown":                                "unknown",
		"abort":                                             "0 operations are in progress",
		"restore --from file:///x --at 2026-11-22T10:00:00": "write 2026-11-22T10:00:00Z for UTC",
		"nonsense":                                          "nonsense",
	} {
		if out, err := ctl(t, s, strings.Fields(args)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s\nwant %q", args, err, out, want)
		}
	}
}

// controlDrains drains a node and stops it: acknowledged writes exist after its start, and it serves clients.
func controlDrains(t *testing.T, ring *process.Ring) {
	s := ring.Servers[3]
	mustCtl(t, s, "drain")
	if err := process.Ask(s.Address, "SELECT * FROM ctl.t"); err == nil {
		t.Error("a drained node serves clients")
	}
	if out := mustCtl(t, s, "info"); !strings.Contains(out, ": DRAINED\n") ||
		!strings.Contains(out, "Native Transport active: false\n") {
		t.Errorf("a drained node reports\n%s", out)
	}
	if complaint, err := ctl(t, s, "enablebinary"); err == nil || !strings.Contains(complaint, "drained") {
		t.Errorf("a drained node can be enabled: %v %s", err, complaint)
	}
	s.Stop()
	if _, err := os.Stat(filepath.Join(s.Dir, "data", "control.sock")); err == nil {
		t.Error("the socket was not removed")
	}
	if complaint, err := ctl(t, s, "status"); err == nil || !strings.Contains(complaint, "no node is running in") {
		t.Errorf("a stopped node: %v %s", err, complaint)
	}
	if out, err := ctl(t, ring.Servers[0], "status"); err != nil || strings.Count(out, "\nUN ") != 3 ||
		!strings.Contains(out, "\nDN ") {
		t.Errorf("with a node down: %v\n%s", err, out)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	if err := process.Ask(s.Address, "SELECT * FROM ctl.t"); err != nil {
		t.Error(err)
	}
}
