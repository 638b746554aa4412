package simulation

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewriteMeetings = flag.Bool("rewrite-meetings", false, "write docs/MEETINGS.md")

const meetingsFile = "../docs/MEETINGS.md"

// meetingRow is one operation of the table.
type meetingRow struct {
	op      string
	drawnBy string // in the simulation
	checks  string // what is checked after it
}

func meetingRows() []meetingRow {
	return []meetingRow{
		{opJoin, "fault `join`", "the operation ends, all nodes have one ring, each replica has the rows of its " +
			"ranges"},
		{opDecommission, "faults `leave`, `removenode`",
			"the operation ends, the ranges of the leaver are whole on those that stay, its batches are handed over"},
		{opMove, "fault `move`", "the operation ends, each replica has the rows of its new ranges"},
		{opReplace, "fault `wiped-disk`", "the new node serves, and has what a quorum acknowledged"},
		{opRebuild, "fault `rebuild`", "nothing is lost, nothing deleted comes back"},
		{opRepair, "fault `repair`, convergence by repair", "the replicas are equal, a second repair sends nothing"},
		{opRepairSome, "fault `repair`, convergence by repair",
			"the replicas in its scope are equal while the others are paused, and deleted rows stay deleted"},
		{opRestart, "faults `restart`, `stop`", "the process stops without an error, starts, serves, and has all " +
			"that it had"},
		{opKill, "faults `kill`, `power-*`, `restart-storm`",
			"the process starts, serves, and has all that it acknowledged"},
		{opPause, "fault `pause`", "no request that others acknowledged meanwhile is lost"},
		{opPartition, "faults `isolate`, `one-way`, `halves`, `bridge`, `ring`, `dc-cut`",
			"histories stay linearizable, replicas converge when links are whole"},
		{opFullDisk, "faults `disk-full`, `raft-full`",
			"writes are refused or kept, the node continues by itself when there is space"},
		{opSchema, "workloads `churn`, `reborn`", "all nodes have one schema, with what was acknowledged, and no " +
			"dropped data; a restored table has its rows"},
		{opTruncate, "workloads `reborn`, `truncate`", "no older row comes back, no later one is missing, also " +
			"while the ring changes"},
		{opHints, "all workloads, convergence by hints",
			"none is left, and the replicas are equal where none was lost"},
		{opBatch, "workload `batch`", "each batch is there whole, or not at all"},
		{opConditional, "workloads `cas`, `append`, `bank`, `entity`, `contended`",
			"the history is linearizable, and all nodes read one value at SERIAL"},
		{opCounter, "workload `counter`", "each addition counts once, unknown ones once or not"},
		{opSnapshot, "fault `snapshot`", "the snapshot can be opened when the run ends, and has what the node had"},
		{opClock, "faults `clock-*`", "no acknowledged write is hidden, stamps of one table's order hold"},
	}
}

// The operations that TestStatementsMeet draws in addition to those that TestOperationsMeet draws.
const (
	opIndex = "CREATE and DROP INDEX"
	opBuild = "build of an index"
	opView  = "views"
	opRoles = "role change"
)

// statementRows returns the rows of these operations.
func statementRows() []meetingRow {
	return []meetingRow{
		{opIndex, "workloads `indexed`, `nearest`",
			"a search finds what a filter of all rows finds, or reports that no replica has built the index"},
		{opBuild, "workloads `indexed`, `nearest`, with steps of one to eight rows",
			"the same, also when rows are streamed or a process ends between the steps"},
		{opView, "workload `viewed`", "a view has the rows of its base table, each at its place only"},
		{opRoles, "workload `roled`",
			"each node lists the roles as the acknowledged changes left them, also after a restart"},
	}
}

// meetingTests returns tests outside the simulation in which operations coincide.
func meetingTests() [][3]string {
	return [][3]string{
		{"integration", "TestTheRingGrowsAndShrinksUnderLoad",
			"join, decommission × hints, counter, conditional change"},
		{"integration", "TestJoinSurvivesCrashes", "join × kill"},
		{"integration", "TestJoinWithDeadNode", "join × kill"},
		{"integration", "TestWipedNodeIsReplaced", "replace × hints, repair"},
		{"integration", "TestMoveAndNewDataCenter", "move × rebuild"},
		{"integration", "TestRollingRestart", "restart × hints"},
		{"integration", "TestKills", "kill × conditional change, counter"},
		{"integration", "TestPauses", "pause × conditional change"},
		{"integration", "TestPartitions", "partition × conditional change"},
		{"integration", "TestFullDisk", "full disk × kill"},
		{"integration", "TestSnapshotIsRestored", "snapshot × restart"},
		{"node", "TestRestoredDataMustFitTheMetadata", "snapshot × restart, schema change"},
		{"node", "TestRemovalsMakeSnapshots", "snapshot × TRUNCATE, schema change"},
		{"node", "TestRemovalsWaitForSnapshots", "snapshot × TRUNCATE, schema change"},
		{"node", "TestImportsUndoRemovals", "snapshot × TRUNCATE, schema change"},
		{"node", "TestRestoredRowsEqualTheModel", "backup, restoration × join, kill, schema change, counter"},
		{"backup", "TestSweepsAndBackupsMeet", "backup × deletion of backups"},
		{"backup", "TestPowerFailuresLeaveNoPartialBackup", "backup, deletion of backups × kill"},
		{"integration", "TestLostRingIsRestoredToASmallerOne", "backup × hints, conditional change, counter"},
		{"integration", "TestRacingDefinitionsGiveOneTable", "schema change × schema change"},
		{"integration", "TestCountersAndBatchesWhileNodesAreKilled", "counter, batch log × kill"},
		{"integration", "TestClocksApart", "clock jump × conditional change"},
		{"integration", "TestLossOfADatacenter", "loss of a data center × schema change, join, decommission"},
		{"integration", "TestRecoveryOfTheMetadata", "loss of a data center × schema change, join, restart"},
		{"integration", "TestRepairOfOneDatacenter", "loss of a data center × restricted repair"},
		{"integration", "TestTwoOfFiveNodesAreRemoved", "decommission × kill, conditional change"},
		{"simulation", "TestMembersMeetLossOfADatacenter",
			"loss of a data center × join, decommission, move, replace, rebuild, repair, schema change"},
		{"simulation", "TestSimRecovery",
			"loss of a data center × kill, conditional change, pause, partition, restart"},
		{"cluster", "TestRollingUpgrade", "rolling upgrade × restart, join"},
		{"cluster/metadata", "TestOperationsInDifferentDataCentersRunAtOnce", "join × join"},
		{"cluster/metadata", "TestOperationDoesNotWaitForDepartedNode", "decommission × decommission"},
		{"cluster/metadata", "TestOperationsKeepTheirPromises", "join, decommission, move, replace × each other"},
		{"coordinator", "TestHandOverWhileBatchesCome", "decommission × batch log"},
		{"rebalance", "TestStreamScenarios", "join × kill, schema change"},
		{"simulation", "TestSearches", opIndex + ", " + opBuild + " × what the seeds draw"},
		{"simulation", "TestSearchesWhileTheRingChanges", opIndex + ", " + opBuild +
			" × join, decommission, partition"},
		{"simulation", "TestIngestionsThatVoidNothingAreFound", opBuild + " × join, decommission"},
		{"simulation", "TestNearestWhileTheRingChanges", opIndex + ", " + opBuild + " × join, decommission, partition"},
		{"storage/index", "TestIndexOfRowsThatCameWhileItWasUnknown", opIndex + " × hints, join, restart"},
		{"storage/index", "TestValuesEqualModel", opIndex + ", " + opBuild + " × join, kill, restart, TRUNCATE"},
		{"simulation", "TestViews", opView + " × what the seeds draw"},
		{"simulation", "TestViewsWhileTheRingChanges", opView + " × join, decommission, partition"},
		{"simulation", "TestRoleChanges", opRoles + " × what the seeds draw"},
		{"simulation", "TestRoleChangesWhileTheRingChanges", opRoles + " × join, decommission, move, restart, kill"},
		{"simulation", "TestRolesInSnapshots", opRoles + " × join, decommission, restart, kill"},
		{"cluster/metadata", "TestRolesAreInTheMetadata", opRoles + " × schema change"},
		{"node", "TestRoleChangesAreInForceOnEveryNode", opRoles + " × restart, schema change"},
		{"cluster", "TestClientsSeeWhichNodesLackTheSchema", "schema change × schema change, partition"},
		{"integration", "TestDriversFindNewTables", "schema change × schema change, hints"},
	}
}

// classified returns the rows of the table for each operation in the code; "-" with a reason means none.
func classified() map[string]map[string]string {
	return map[string]map[string]string{
		"fault": {
			"kill": opKill, "power-one": opKill, "power-all": opKill, "power-torn": opKill, "restart-storm": opKill,
			"pause": opPause, "restart": opRestart, "stop": opRestart,
			"isolate": opPartition, "one-way": opPartition, "halves": opPartition, "bridge": opPartition,
			"ring": opPartition, "dc-cut": opPartition, "dc-loss": opKill,
			"bad-links":  "- messages are lost and repeated, which all runs have",
			"slow-links": "- messages are late, which all runs have",
			"reorder":    "- messages change their order, which all runs have",
			"dc-slow":    "- messages are late, which all runs have",
			"clock-jump": opClock, "clock-drift": opClock, "clock-strobe": opClock, "clock-leap": opClock,
			"slow-disk": "- answers are late, which all runs have", "fsync-error": opKill, "write-error": opKill,
			"read-error": "- requests fail, and nothing lasts",
			"disk-full":  opFullDisk, "raft-full": opFullDisk, "raft-fsync-error": opKill, "raft-write-error": opKill,
			"flush": "- where rows are on a disk", "bit-flip": opReplace, "wiped-disk": opReplace,
			"join": opJoin, "leave": opDecommission, "move": opMove, "removenode": opDecommission, "abort": opJoin +
				", " + opDecommission + ", " + opMove,
			"rebuild": opRebuild, "repair": opRepair + ", " + opRepairSome, "snapshot": opSnapshot,
		},
		"workload": {
			"register": opHints, "set": opHints, "cas": opConditional, "counter": opCounter, "batch": opBatch,
			"append": opConditional, "bank": opConditional,
			"isolation": opHints, "ttl": opHints, "churn": opSchema, "paging": opHints, "graves": opRepair,
			"calm": "- requests that may not fail",
			"ties": opHints, "ordered": opHints, "skewed": opHints, "entity": opConditional, "levels": opHints,
			"reborn": opTruncate + ", " + opSchema, "rich": opHints, "restarts": opRestart + ", " + opJoin,
			"overflow": opHints + ", " + opRepair, "truncate": opTruncate, "contended": opConditional,
			"replications": opSchema + ", " + opRepair,
		},
		"cluster command": {
			"Found": "- the first of a cluster", "Admit": opJoin + ", " + opReplace, "Update": opRestart,
			"Schema": opSchema, "Begin": opDecommission + ", " + opMove,
			"Streamed": opJoin, "Excuse": opDecommission + ", " + opKill, "Known": opJoin, "Compared": opJoin,
			"Handed": opBatch, "End": opJoin, "Abort": opJoin, "Cleaned": opDecommission,
			"PaxosFloor": opRepair + ", " + opConditional, "Settled": opRepair + ", " + opDecommission,
			"Regained": opRepair + ", " + opSchema, "Roles": opRoles, "Finalize": "- once in an upgrade",
		},
		"control operation": {
			"status": "- reads", "ring": "- reads", "describecluster": "- reads", "describering": "- reads",
			"getendpoints": "- reads", "info": "- reads",
			"tablestats": "- reads", "tablehistograms": "- reads", "toppartitions": "- reads", "tpstats": "- reads",
			"compactionstats": "- reads",
			"netstats":        "- reads", "clientstats": "- reads", "killquery": "- one request",
			"flush": "- where rows are on a disk", "compact": "- where rows are on a disk",
			"verify":  "- reads",
			"cleanup": opDecommission, "drain": opRestart, "stopdaemon": opRestart, "snapshot": opSnapshot,
			"listsnapshots": "- reads", "clearsnapshot": opSnapshot, "verifysnapshot": "- reads", "import": opSnapshot,
			"showsnapshot": "- reads",
			"createbackup": "- tests outside the simulation", "restorebackup": "- tests outside the simulation",
			"deletebackup": "- tests outside the simulation", "listbackups": "- reads", "verifybackup": "- reads",
			"statusbinary": "- reads", "ready": "- reads", "setbinary": opRestart, "statushandoff": "- reads",
			"sethandoff": opHints, "listpendinghints": "- reads",
			"gettimeout": "- reads", "getseeds": "- reads", "getlogginglevels": "- reads",
			"setlogginglevel": "- what is logged", "getauditlog": "- reads", "setauditlog": "- what is logged",
			"repair":       opRepair + ", " + opRepairSome,
			"decommission": opDecommission, "removenode": opDecommission, "move": opMove, "rebuild": opRebuild,
			"abort": opJoin + ", " + opDecommission + ", " + opMove, "operations": "- reads",
			"updatecidrgroup": opRoles, "dropcidrgroup": opRoles, "listcidrgroups": "- reads",
			"getcidrgroupsofip": "- reads",
			"tablesaccounts":    "- reads", "createtablesaccount": opSchema, "rotatetableskey": opSchema,
			"removetablesaccount": opSchema, "settablesconsistency": opSchema,
			"rebuild_index": opBuild, "viewbuildstatus": "- reads",
			"getindexbuildthroughput": "- reads", "setindexbuildthroughput": "- how fast indexes are built",
			"reloadssl": "- which certificates are used", "rotatekeys": "- which keys files have",
			"jobs": "- reads", "watchjob": "- reads", "canceljob": opRepair + ", " + opRebuild,
			"resumejob": opRepair + ", " + opRebuild, "upgradestatus": "- reads",
			"upgradefinalize": "- once in an upgrade",
		},
		"verb": {
			"Mutation": opHints, "Read": "- reads", "Digest": "- reads", "ReadRepair": opRepair, "Hint": opHints,
			"Truncate": opTruncate,
			"Raft":     opSchema, "Join": opJoin, "Heartbeat": opPause, "Applied": opSchema,
			"PaxosPrepare": opConditional, "PaxosAccept": opConditional, "PaxosCommit": opConditional,
			"Counter":    opCounter,
			"BatchStore": opBatch, "BatchRemove": opBatch, "Stream": opJoin + ", " + opRebuild, "Merkle": opRepair,
			"Repaired": opRepair,
			"Control":  "- carries the control operations", "Partitions": "- reads", "Turn": opConditional,
			"Pass":   opConditional,
			"Newest": "- reads", "Search": "- reads", "PaxosPurge": opRepair + ", " + opConditional,
			"Holds": opDecommission,
		},
		"schema change": {
			"CreateKeyspace": opSchema, "AlterKeyspace": opSchema, "DropKeyspace": opSchema,
			"CreateTable": opSchema, "AlterTable": opSchema, "DropTable": opSchema + ", " + opTruncate,
			"UndropTable": opSchema, "PurgeTables": opSchema,
			"CreateType": opSchema, "AlterType": opSchema, "DropType": opSchema,
			"CreateFunction": opSchema, "CreateAggregate": opSchema, "DropFunction": opSchema,
			"CreateIndex": opIndex + ", " + opBuild, "DropIndex": opIndex + ", " + opBuild,
			"CreateView": opView + ", " + opBuild, "AlterView": opView, "DropView": opView,
		},
		"role change": {
			"CreateRole": opRoles, "AlterRole": opRoles, "DropRole": opRoles, "GrantRole": opRoles,
			"RevokeRole":       opRoles,
			"GrantPermissions": opRoles, "RevokePermissions": opRoles, "AddIdentity": opRoles, "DropIdentity": opRoles,
			"ResourcesCreated": opRoles + ", " + opSchema, "ResourcesDropped": opRoles + ", " + opSchema,
			"SetCIDRGroup": opRoles, "DropCIDRGroup": opRoles, "FirstSuperuser": opRoles, "ResetSuperuser": opRoles,
		},
	}
}

// inCode returns the names of the operations in the code.
func inCode(t *testing.T) map[string][]string {
	all := map[string][]string{
		"cluster command":   matches(t, "../cluster/metadata/command.go", `(?m)^\t(\w+) +\*\w+ +.json:`),
		"control operation": matches(t, "../node/control/operations*.go", `= Operation\[[^\]]*\]\{Name: "(\w+)"`),
		"verb":              matches(t, "../messaging/transport.go", `(?m)^\tVerb(\w+) `),
		"schema change":     matches(t, "../schema/*.go", `(?m)^func \(\*(\w+)\) change\(\) +\{\}`),
		"role change":       matches(t, "../auth/*.go", `(?m)^func \((?:\w+ )?\*(\w+)\) apply\(\w+ \*Directory\)`),
	}
	for _, k := range faultKinds() {
		all["fault"] = append(all["fault"], string(k))
	}
	for _, k := range workloadKinds() {
		all["workload"] = append(all["workload"], k.name)
	}
	return all
}

// matches returns the first groups of a pattern's matches in files.
func matches(t *testing.T, files, pattern string) (found []string) {
	t.Helper()
	names, err := filepath.Glob(files)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", files, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
	}
	if len(found) < 5 {
		t.Fatalf("%s has only %d matches of %s", files, len(found), pattern)
	}
	return found
}

// TestEveryOperationIsClassified fails if the code has an operation that is not in the table of meetings.
func TestEveryOperationIsClassified(t *testing.T) {
	table := classified()
	for kind, names := range inCode(t) {
		for _, name := range names {
			if table[kind][name] == "" {
				t.Errorf("the %s %s has no place in the table of meetings: add it to classified, and to meetingRows "+
					"if it is of a new kind", kind, name)
			}
		}
		for name, rows := range table[kind] {
			if !slices.Contains(names, name) {
				t.Errorf("there is no %s %s any more", kind, name)
			}
			for op := range strings.SplitSeq(rows, ", ") {
				known := slices.Contains(meetingOps(), op) ||
					slices.ContainsFunc(statementRows(), func(r meetingRow) bool { return r.op == op })
				if !strings.HasPrefix(rows, "- ") && !known {
					t.Errorf("%s %s belongs to %q, which is no row of the table", kind, name, op)
				}
			}
		}
	}
	for i, r := range meetingRows() {
		if r.op != meetingOps()[i] {
			t.Errorf("row %d is %s, not %s", i, r.op, meetingOps()[i])
		}
	}
}

// TestTestsOfMeetingsExist searches for the tests that the table names.
func TestTestsOfMeetingsExist(t *testing.T) {
	for _, m := range meetingTests() {
		if !slices.Contains(matches(t, "../"+m[0]+"/*_test.go", `(?m)^func (Test\w+)\(`), m[1]) {
			t.Errorf("package %s has no test %s", m[0], m[1])
		}
	}
}

// TestMeetingsAreDocumented compares docs/MEETINGS.md with the tables here; -rewrite-meetings writes it.
func TestMeetingsAreDocumented(t *testing.T) {
	want := meetingsDocument(t)
	if *rewriteMeetings {
		if err := os.WriteFile(meetingsFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(meetingsFile); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the tables say (%v): run this test with -rewrite-meetings", meetingsFile, err)
	}
}

// codeSpans replaces ' by the quote of code, which a raw string cannot contain.
func codeSpans(text string) string { return strings.ReplaceAll(text, "'", "`") }

// meetingsDocument returns the content of docs/MEETINGS.md.
func meetingsDocument(t *testing.T) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, codeSpans(`# Meetings

Faults and operations break promises where they meet. This table has every pair of operations, with what draws them in
the simulation and what is checked after they have met. Two operations meet when one begins while the other is under
way: before it has ended, a dead node serves again, a link is whole, or a hint is delivered. An operation that is
refused for the sake of the other has met it, too.

'go test ./simulation -run TestOperationsMeet' runs seeds 0 to %d of 'MeetingOptions' and fails when a pair has not met.
'TestSim' draws the same operations in other combinations. With '-run TestMeetingsAreDocumented -rewrite-meetings' the
tests write this file, and with '-run "TestOperationsMeet|TestStatementsMeet"' what they count.

After every run, besides: each node serves, each operation of the ring has ended, no hint is left, all nodes have one
schema and one ring, and all replicas of each table have the same bytes.

## Operations

| | operation | drawn by | checked after it |
|---|---|---|---|
`), meetingSeeds-1)
	rows := append(meetingRows(), statementRows()...)
	for i, r := range rows {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", i+1, r.op, r.drawnBy, r.checks)
	}
	fmt.Fprintf(&b, codeSpans(`
## Pairs

Rows and columns have the numbers of the operations. A cell has the number of seeds in which the two were in progress
together in the last recorded run: of the %d seeds of 'TestOperationsMeet', and in the last %d rows of the %d seeds of
'TestStatementsMeet'.

`), meetingSeeds, len(statementRows()), statementSeeds)
	writeMatrix(t, &b, rows)
	b.WriteString("\n## Tests outside the simulation\n\n| test | operations that meet |\n|---|---|\n")
	for _, m := range meetingTests() {
		fmt.Fprintf(&b, "| %s of `%s` | %s |\n", m[1], m[0], m[2])
	}
	b.WriteString("\n## Where the operations of the code belong\n\n`TestEveryOperationIsClassified` fails when the " +
		"code has one that is not here.\n\n" +
		"| kind | name | operation of the table, or why none |\n|---|---|---|\n")
	table := classified()
	kinds := []string{"fault", "workload", "cluster command", "control operation", "verb", "schema change",
		"role change"}
	for _, kind := range kinds {
		for _, name := range inCode(t)[kind] {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", kind, name, strings.TrimPrefix(table[kind][name], "- "))
		}
	}
	return b.Bytes()
}

// writeMatrix writes a triangle with the recorded numbers of seeds in which each pair of operations met.
func writeMatrix(t *testing.T, b *bytes.Buffer, rows []meetingRow) {
	met := recordedMeetings(t)
	b.WriteString("| |")
	for i := range rows[1:] {
		fmt.Fprintf(b, " %d |", i+1)
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(rows)-1) + "|\n")
	for i, x := range rows[1:] {
		fmt.Fprintf(b, "| **%d %s** |", i+2, x.op)
		for _, y := range rows[:i+1] {
			n := max(met[pair{y.op, x.op}], met[pair{x.op, y.op}])
			if n == 0 {
				t.Errorf("%s and %s have not met, as %s records", x.op, y.op, meetingsCounts)
			}
			fmt.Fprintf(b, " %d |", n)
		}
		b.WriteString(strings.Repeat(" |", len(rows)-2-i) + "\n")
	}
}

// meetingsCounts has a line for each pair that met: the test, the operations, and the number of seeds.
const meetingsCounts = "testdata/meetings.txt"

// recordedMeetings returns how many seeds of the last recorded runs each pair met in.
func recordedMeetings(t *testing.T) map[pair]int {
	t.Helper()
	met := map[pair]int{}
	for _, line := range meetingLines(t) {
		fields := strings.Split(line, "\t")
		n, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil || len(fields) != 4 {
			t.Fatalf("%s: %q: %v", meetingsCounts, line, err)
		}
		met[pair{fields[1], fields[2]}] = n
	}
	return met
}

func meetingLines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(meetingsCounts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool { return l == "" })
}

// recordMeetings writes what a test has counted, if -rewrite-meetings is set: the pairs for which counts returns true.
func recordMeetings(t *testing.T, met map[pair]int, counts func(pair) bool) {
	t.Helper()
	if !*rewriteMeetings {
		return
	}
	lines := slices.DeleteFunc(meetingLines(t), func(l string) bool { return strings.HasPrefix(l, t.Name()+"\t") })
	for p, n := range met {
		if counts(p) {
			lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%d", t.Name(), p.a, p.b, n))
		}
	}
	slices.Sort(lines)
	if err := os.MkdirAll(filepath.Dir(meetingsCounts), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(meetingsCounts, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
