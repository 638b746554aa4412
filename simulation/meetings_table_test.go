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

	"cqld/simulation/meetings"
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
		{meetings.Join, "fault `join`",
			"the operation ends, all nodes have one ring, each replica has the rows of its " +
				"ranges"},
		{meetings.Decommission, "faults `leave`, `removenode`",
			"the operation ends, the ranges of the leaver are whole on those that stay, its batches are handed over"},
		{meetings.Move, "fault `move`", "the operation ends, each replica has the rows of its new ranges"},
		{meetings.Replace, "fault `wiped-disk`", "the new node serves, and has what a quorum acknowledged"},
		{meetings.Rebuild, "fault `rebuild`", "nothing is lost, nothing deleted comes back"},
		{meetings.Repair, "fault `repair`, convergence by repair",
			"the replicas are equal, a second repair sends nothing"},
		{meetings.RestrictedRepair, "fault `repair`, convergence by repair",
			"the replicas in its scope are equal while the others are paused, and deleted rows stay deleted"},
		{meetings.Restart, "faults `restart`, `stop`",
			"the process stops without an error, starts, serves, and has all " +
				"that it had"},
		{meetings.Kill, "faults `kill`, `power-*`, `restart-storm`",
			"the process starts, serves, and has all that it acknowledged"},
		{meetings.Pause, "fault `pause`", "no request that others acknowledged meanwhile is lost"},
		{meetings.Partition, "faults `isolate`, `one-way`, `halves`, `bridge`, `ring`, `dc-cut`",
			"histories stay linearizable, replicas converge when links are whole"},
		{meetings.FullDisk, "faults `disk-full`, `raft-full`",
			"writes are refused or kept, the node continues by itself when there is space"},
		{meetings.SchemaChange, "workloads `churn`, `reborn`",
			"all nodes have one schema, with what was acknowledged, and no " +
				"dropped data; a restored table has its rows"},
		{meetings.Truncate, "workloads `reborn`, `truncate`",
			"no older row comes back, no later one is missing, also " +
				"while the ring changes"},
		{meetings.Hints, "all workloads, convergence by hints",
			"none is left, and the replicas are equal where none was lost"},
		{meetings.BatchLog, "workload `batch`", "each batch is there whole, or not at all"},
		{meetings.ConditionalChange, "workloads `cas`, `append`, `bank`, `entity`, `contended`",
			"the history is linearizable, and all nodes read one value at SERIAL"},
		{meetings.Counter, "workload `counter`", "each addition counts once, unknown ones once or not"},
		{meetings.Snapshot, "fault `snapshot`",
			"the snapshot can be opened when the run ends, and has what the node had"},
		{meetings.ClockJump, "faults `clock-*`", "no acknowledged write is hidden, stamps of one table's order hold"},
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

// backupRows returns the rows of the operations that TestBackupsMeet draws.
func backupRows() []meetingRow {
	return []meetingRow{
		{meetings.Backup, "workload `backups`",
			"it has every change that was acknowledged before its time, deletions too, and nothing that was never " +
				"written; without a manifest it cannot be restored"},
		{meetings.Restoration, "workload `backups`",
			"each replica has exactly the rows of the backup, also in a new ring of another size; no other table " +
				"changes"},
		{meetings.Sweep, "workload `backups`", "backups that were not deleted have all their objects"},
		{meetings.Undrop, "workloads `reborn`, `backups`", "the table has the rows that it had"},
		{meetings.Purge, "workloads `reborn`, `backups`", "no node has a row of the table"},
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
		{"node", "TestDroppedKeyspacesAreRestored", "schema change × kill, repair, counter"},
		{"node", "TestDroppedKeyspacesMoveWithTheRing", "schema change × join"},
		{"node", "TestTruncatedRowsAreRestored", "TRUNCATE × kill, UNDROP TABLE, PURGE TABLE"},
		{"node", "TestRestoredRowsEqualTheModel", "backup, restoration × join, kill, schema change, counter"},
		{"node", "TestMomentsAreRestored", "restoration of a moment × kill, schema change, TRUNCATE, counter"},
		{"node", "TestTablesAreReplaced", "restoration × schema change, counter, UNDROP TABLE"},
		{"node", "TestReplacementsAreResumed", "restoration × kill, schema change"},
		{"integration", "TestLostRingIsRestoredToAMoment",
			"restoration of a moment × schema change, TRUNCATE, counter"},
		{"backup", "TestSweepsAndBackupsMeet", "backup × deletion of backups"},
		{"backup", "TestBackupsThatAreRestoredAreKept", "deletion of backups × restoration"},
		{"backup/schedule", "TestNodesShareASchedule", "schedule of backups × restart, clock jump"},
		{"node/backups", "TestSchedulerKeepsBackups", "schedule of backups × restoration, deletion of backups"},
		{"backup", "TestPowerFailuresLeaveNoPartialBackup", "backup, deletion of backups × kill"},
		{"node", "TestFullLocationsFailTheJobUntilSpaceIsFreed",
			"backup, restoration × full disk of the location"},
		{"simulation", "TestBackupsInADirectory",
			"backup, restoration, deletion of backups × kill of the machine with the directory"},
		{"simulation", "TestMoments",
			"archive of the log, restoration of a moment × restart, kill, join, schema change, TRUNCATE, clock jump"},
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
		{"simulation", "TestUpgrades", "rolling upgrade × restart, kill, join, decommission, move, repair, schema " +
			"change, conditional change, hints"},
		{"simulation", "TestReassignments",
			meetings.Reassignment + " × " + strings.Join(reassignmentMeets(), ", ")},
		{"integration", "TestRangesAreSplitMovedAndMerged", "reassignment × restart"},
		{"cluster", "TestRollingUpgrade", "rolling upgrade × restart, join"},
		{"cluster/metadata", "TestOperationsInDifferentDataCentersRunAtOnce", "join × join"},
		{"cluster/metadata", "TestOperationDoesNotWaitForDepartedNode", "decommission × decommission"},
		{"cluster/metadata", "TestOperationsKeepTheirPromises", "join, decommission, move, reassignment × each other"},
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
			"kill": meetings.Kill, "power-one": meetings.Kill, "power-all": meetings.Kill, "power-torn": meetings.Kill,
			"restart-storm": meetings.Kill,
			"pause":         meetings.Pause, "restart": meetings.Restart, "stop": meetings.Restart,
			"isolate": meetings.Partition, "one-way": meetings.Partition, "halves": meetings.Partition,
			"bridge": meetings.Partition,
			"ring":   meetings.Partition, "dc-cut": meetings.Partition, "dc-loss": meetings.Kill,
			"bad-links":  "- messages are lost and repeated, which all runs have",
			"slow-links": "- messages are late, which all runs have",
			"reorder":    "- messages change their order, which all runs have",
			"dc-slow":    "- messages are late, which all runs have",
			"clock-jump": meetings.ClockJump, "clock-drift": meetings.ClockJump, "clock-strobe": meetings.ClockJump,
			"clock-leap": meetings.ClockJump,
			"slow-disk":  "- answers are late, which all runs have", "fsync-error": meetings.Kill,
			"write-error": meetings.Kill,
			"read-error":  "- requests fail, and nothing lasts",
			"disk-full":   meetings.FullDisk, "raft-full": meetings.FullDisk, "raft-fsync-error": meetings.Kill,
			"raft-write-error": meetings.Kill,
			"flush":            "- where rows are on a disk", "bit-flip": meetings.Replace,
			"wiped-disk": meetings.Replace,
			"join":       meetings.Join, "leave": meetings.Decommission, "move": meetings.Move,
			"removenode": meetings.Decommission, "abort": meetings.Join +
				", " + meetings.Decommission + ", " + meetings.Move,
			"split": meetings.Move, "merge": meetings.Move, "reassign": meetings.Move,
			"rebuild": meetings.Rebuild, "repair": meetings.Repair + ", " + meetings.RestrictedRepair,
			"snapshot": meetings.Snapshot,
		},
		"workload": {
			"register": meetings.Hints, "set": meetings.Hints, "cas": meetings.ConditionalChange,
			"counter": meetings.Counter, "batch": meetings.BatchLog,
			"append": meetings.ConditionalChange, "bank": meetings.ConditionalChange,
			"isolation": meetings.Hints, "ttl": meetings.Hints, "churn": meetings.SchemaChange,
			"paging": meetings.Hints, "graves": meetings.Repair,
			"calm": "- requests that may not fail",
			"ties": meetings.Hints, "ordered": meetings.Hints, "skewed": meetings.Hints,
			"entity": meetings.ConditionalChange, "levels": meetings.Hints,
			"reborn": meetings.Truncate + ", " + meetings.SchemaChange, "rich": meetings.Hints,
			"restarts": meetings.Restart + ", " + meetings.Join,
			"overflow": meetings.Hints + ", " + meetings.Repair, "truncate": meetings.Truncate,
			"contended":    meetings.ConditionalChange,
			"replications": meetings.SchemaChange + ", " + meetings.Repair,
		},
		"cluster command": {
			"Found": "- the first of a cluster", "Admit": meetings.Join + ", " + meetings.Replace,
			"Update": meetings.Restart,
			"Schema": meetings.SchemaChange, "Begin": meetings.Decommission + ", " + meetings.Move,
			"Streamed": meetings.Join, "Excuse": meetings.Decommission + ", " + meetings.Kill, "Known": meetings.Join,
			"Compared": meetings.Join,
			"Handed":   meetings.BatchLog, "End": meetings.Join, "Abort": meetings.Join,
			"Cleaned":    meetings.Decommission,
			"PaxosFloor": meetings.Repair + ", " + meetings.ConditionalChange, "Settled": meetings.Repair + ", " +
				meetings.Decommission,
			"Regained": meetings.Repair + ", " + meetings.SchemaChange, "Roles": opRoles,
			"Finalize": "- TestUpgrades draws it", "BackupSchedule": "- tests outside the simulation",
		},
		"control operation": {
			"status": "- reads", "ring": "- reads", "describecluster": "- reads", "describering": "- reads",
			"ranges": "- reads", "balance": "- reads",
			"getendpoints": "- reads", "info": "- reads",
			"tablestats": "- reads", "tablehistograms": "- reads", "toppartitions": "- reads", "tpstats": "- reads",
			"compactionstats": "- reads",
			"netstats":        "- reads", "clientstats": "- reads", "killquery": "- one request",
			"flush": "- where rows are on a disk", "compact": "- where rows are on a disk",
			"verify":  "- reads",
			"cleanup": meetings.Decommission, "drain": meetings.Restart, "stopdaemon": meetings.Restart,
			"snapshot":      meetings.Snapshot,
			"listsnapshots": "- reads", "clearsnapshot": meetings.Snapshot, "verifysnapshot": "- reads",
			"import":       meetings.Snapshot,
			"showsnapshot": "- reads",
			"createbackup": meetings.Backup, "restorebackup": meetings.Restoration,
			"deletebackup": meetings.Sweep, "listbackups": "- reads", "verifybackup": "- reads",
			"createbackupschedule": "- tests outside the simulation", "listbackupschedules": "- reads",
			"dropbackupschedule": "- tests outside the simulation",
			"statusbinary":       "- reads", "ready": "- reads", "setbinary": meetings.Restart,
			"statushandoff": "- reads",
			"sethandoff":    meetings.Hints, "listpendinghints": "- reads",
			"gettimeout": "- reads", "getseeds": "- reads", "getlogginglevels": "- reads",
			"setlogginglevel": "- what is logged", "getauditlog": "- reads", "setauditlog": "- what is logged",
			"repair":       meetings.Repair + ", " + meetings.RestrictedRepair,
			"decommission": meetings.Decommission, "removenode": meetings.Decommission, "move": meetings.Move,
			"splitrange": meetings.Move, "mergerange": meetings.Move,
			"moverange": meetings.Move,
			"rebuild":   meetings.Rebuild,
			"abort":     meetings.Join + ", " + meetings.Decommission + ", " + meetings.Move, "operations": "- reads",
			"updatecidrgroup": opRoles, "dropcidrgroup": opRoles, "listcidrgroups": "- reads",
			"getcidrgroupsofip": "- reads",
			"tablesaccounts":    "- reads", "createtablesaccount": meetings.SchemaChange,
			"rotatetableskey":     meetings.SchemaChange,
			"removetablesaccount": meetings.SchemaChange, "settablesconsistency": meetings.SchemaChange,
			"rebuild_index": opBuild, "viewbuildstatus": "- reads",
			"getindexbuildthroughput": "- reads", "setindexbuildthroughput": "- how fast indexes are built",
			"reloadssl": "- which certificates are used", "rotatekeys": "- which keys files have",
			"jobs": "- reads", "watchjob": "- reads", "canceljob": meetings.Repair + ", " + meetings.Rebuild,
			"resumejob":     meetings.Repair + ", " + meetings.Rebuild,
			"upgradestatus": "- reads", "upgradefinalize": "- TestUpgrades draws it",
		},
		"verb": {
			"Mutation": meetings.Hints, "Read": "- reads", "Digest": "- reads", "ReadRepair": meetings.Repair,
			"Hint":     meetings.Hints,
			"Truncate": meetings.Truncate,
			"Raft":     meetings.SchemaChange, "Join": meetings.Join, "Heartbeat": meetings.Pause,
			"Applied":      meetings.SchemaChange,
			"PaxosPrepare": meetings.ConditionalChange, "PaxosAccept": meetings.ConditionalChange,
			"PaxosCommit": meetings.ConditionalChange,
			"Counter":     meetings.Counter,
			"BatchStore":  meetings.BatchLog, "BatchRemove": meetings.BatchLog, "Stream": meetings.Join + ", " +
				meetings.Rebuild, "Merkle": meetings.Repair,
			"Repaired": meetings.Repair,
			"Control":  "- carries the control operations", "Partitions": "- reads", "Turn": meetings.ConditionalChange,
			"Pass":   meetings.ConditionalChange,
			"Newest": "- reads", "Search": "- reads", "PaxosPurge": meetings.Repair + ", " + meetings.ConditionalChange,
			"Holds": meetings.Decommission,
		},
		"schema change": {
			"CreateKeyspace": meetings.SchemaChange, "AlterKeyspace": meetings.SchemaChange,
			"DropKeyspace": meetings.SchemaChange,
			"CreateTable":  meetings.SchemaChange, "AlterTable": meetings.SchemaChange,
			"DropTable":      meetings.SchemaChange + ", " + meetings.Truncate,
			"UndropTable":    meetings.SchemaChange + ", " + meetings.Undrop,
			"PurgeTables":    meetings.SchemaChange + ", " + meetings.Purge,
			"TruncateTable":  meetings.Truncate + ", " + meetings.SchemaChange,
			"ReplaceTables":  meetings.SchemaChange + ", " + meetings.Restoration,
			"UndropKeyspace": meetings.SchemaChange, "PurgeKeyspaces": meetings.SchemaChange,
			"CreateType": meetings.SchemaChange, "AlterType": meetings.SchemaChange,
			"DropType":       meetings.SchemaChange,
			"CreateFunction": meetings.SchemaChange, "CreateAggregate": meetings.SchemaChange,
			"DropFunction": meetings.SchemaChange,
			"CreateIndex":  opIndex + ", " + opBuild, "DropIndex": opIndex + ", " + opBuild,
			"CreateView": opView + ", " + opBuild, "AlterView": opView, "DropView": opView,
		},
		"role change": {
			"CreateRole": opRoles, "AlterRole": opRoles, "DropRole": opRoles, "GrantRole": opRoles,
			"RevokeRole":       opRoles,
			"GrantPermissions": opRoles, "RevokePermissions": opRoles, "AddIdentity": opRoles, "DropIdentity": opRoles,
			"ResourcesCreated": opRoles + ", " + meetings.SchemaChange, "ResourcesDropped": opRoles + ", " +
				meetings.SchemaChange,
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
	// A pattern that has become wrong must be noticed.
	if len(found) < 3 {
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
				known := slices.Contains(meetings.Operations(), op) ||
					slices.ContainsFunc(slices.Concat(statementRows(), backupRows()),
						func(r meetingRow) bool { return r.op == op })
				if !strings.HasPrefix(rows, "- ") && !known {
					t.Errorf("%s %s belongs to %q, which is no row of the table", kind, name, op)
				}
			}
		}
	}
	for i, r := range meetingRows() {
		if r.op != meetings.Operations()[i] {
			t.Errorf("row %d is %s, not %s", i, r.op, meetings.Operations()[i])
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
tests write this file, and with '-run "TestOperationsMeet|TestStatementsMeet|TestBackupsMeet"' what they count.

After every run, besides: each node serves, each operation of the ring has ended, no hint is left, all nodes have one
schema and one ring, and all replicas of each table have the same bytes.

## Operations

| | operation | drawn by | checked after it |
|---|---|---|---|
`), meetingSeeds-1)
	rows := slices.Concat(meetingRows(), statementRows(), backupRows())
	for i, r := range rows {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", i+1, r.op, r.drawnBy, r.checks)
	}
	fmt.Fprintf(&b, codeSpans(`
## Pairs

Rows and columns have the numbers of the operations. A cell has the number of seeds in which the two were in progress
together in the last recorded run: of the %d seeds of 'TestOperationsMeet', in the last %d rows of the %d seeds of
'TestBackupsMeet', and in the %d rows before them of the %d seeds of 'TestStatementsMeet'.

`), meetingSeeds, len(backupRows()), backupSeeds, len(statementRows()), statementSeeds)
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
			n := max(met[meetings.Pair{A: y.op, B: x.op}], met[meetings.Pair{A: x.op, B: y.op}])
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
func recordedMeetings(t *testing.T) map[meetings.Pair]int {
	t.Helper()
	met := map[meetings.Pair]int{}
	for _, line := range meetingLines(t) {
		fields := strings.Split(line, "\t")
		n, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil || len(fields) != 4 {
			t.Fatalf("%s: %q: %v", meetingsCounts, line, err)
		}
		met[meetings.Pair{A: fields[1], B: fields[2]}] = n
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
func recordMeetings(t *testing.T, met map[meetings.Pair]int, counts func(meetings.Pair) bool) {
	t.Helper()
	if !*rewriteMeetings {
		return
	}
	lines := slices.DeleteFunc(meetingLines(t), func(l string) bool { return strings.HasPrefix(l, t.Name()+"\t") })
	for p, n := range met {
		if counts(p) {
			lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%d", t.Name(), p.A, p.B, n))
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
