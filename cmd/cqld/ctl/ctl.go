package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"cqld/node/control"
)

// Commands are the subcommands of `cqld ctl`. The groups are embedded: they structure the list in the source, and are
// not part of the command line.
type Commands struct {
	// Where is embedded, so its flags are accepted before and after the name of the command.
	Where
	JSON bool `name:"json" help:"Print the result as JSON."`

	Ring   ringCommands   `embed:""`
	Change changeCommands `embed:""`
	Node   nodeCommands   `embed:""`
	Do     doCommands     `embed:""`
	Access accessCommands `embed:""`

	Help helpCommand `cmd:"" group:"do" help:"Show the commands, or the arguments and flags of one."`
}

// ringCommands show the state of the ring. Commands that nodetool has too use nodetool's names, in lower case. kong
// derives a command's name from the field, with a hyphen before each inner capital letter: Describecluster is
// describecluster, TablesAccount is tables-account. Fields for nodetool's commands therefore have only one capital
// letter.
type ringCommands struct {
	Status          statusCommand          `cmd:"" group:"ring" help:"Show the state, load and ownership of every node."`
	Ring            ringCommand            `cmd:"" group:"ring" help:"Show every token and its owner."`
	Describecluster describeClusterCommand `cmd:"" group:"ring" help:"Show the cluster's name, schema versions, nodes and keyspaces."`
	Describering    describeRingCommand    `cmd:"" group:"ring" help:"Show the token ranges of a keyspace and their replicas."`
	Ranges          rangesCommand          `cmd:"" group:"ring" help:"Show the load and size of nodes and token ranges."`
	Balance         balanceCommand         `cmd:"" group:"ring" help:"Show steps that would even out the load."`
	Getendpoints    endpointsCommand       `cmd:"" group:"ring" help:"Show the replicas of a partition."`
	Getseeds        seedsCommand           `cmd:"" group:"ring" help:"Show the seeds, without the node itself."`
	Members         membersCommand         `cmd:"" group:"ring" aliases:"gossipinfo" help:"Show everything that the node knows about each member."`
	Operations      operationsCommand      `cmd:"" group:"ring" help:"Show the operations that are changing the ring."`
}

// changeCommands change or repair the ring.
type changeCommands struct {
	Decommission decommissionCommand `cmd:"" group:"change" help:"Stream the node's data to the other nodes and leave the ring."`
	Removenode   removeNodeCommand   `cmd:"" group:"change" help:"Remove a dead node; the other nodes stream its data from each other."`
	Move         moveCommand         `cmd:"" group:"change" help:"Change the node's tokens."`
	Range        rangeCommands       `cmd:"" group:"change" help:"Split, merge or move single ranges of the ring."`
	Rebuild      rebuildCommand      `cmd:"" group:"change" help:"Stream the node's data from other nodes."`
	Abort        abortCommand        `cmd:"" group:"change" help:"Abort an operation that is changing the ring."`
	Repair       repairCommand       `cmd:"" group:"change" help:"Compare the replicas of all ranges and copy what differs."`
	Cleanup      cleanupCommand      `cmd:"" group:"change" help:"Drop data of ranges that the node no longer holds."`
	Upgrade      upgradeCommand      `cmd:"" group:"change" help:"Show a rolling upgrade, or finalize it."`
}

// nodeCommands show the state of the node.
type nodeCommands struct {
	Info             infoCommand            `cmd:"" group:"node" help:"Show load, uptime, memory, clients and disk."`
	Ready            readyCommand           `cmd:"" group:"node" help:"Exit with status 0 if the node serves clients, for health checks."`
	Version          versionCommand         `cmd:"" group:"node" help:"Show the node's version."`
	Tablestats       tableStatsCommand      `cmd:"" group:"node" aliases:"cfstats" help:"Show statistics of tables."`
	Tablehistograms  tableHistogramsCommand `cmd:"" group:"node" help:"Show the read latencies of a table."`
	Toppartitions    topPartitionsCommand   `cmd:"" group:"node" help:"Sample requests and show the most used partitions."`
	Tpstats          poolStatsCommand       `cmd:"" group:"node" help:"Show active, queued and rejected requests per pool."`
	Jobs             jobsCommand            `cmd:"" group:"node" help:"List, watch, cancel and resume long-running work."`
	Compactionstats  compactionStatsCommand `cmd:"" group:"node" help:"Show the state of the storage engine."`
	Netstats         netStatsCommand        `cmd:"" group:"node" help:"Show streams, hints and read repairs."`
	Viewbuildstatus  viewBuildStatusCommand `cmd:"" group:"node" help:"Show on which nodes a materialized view is built."`
	Listpendinghints pendingHintsCommand    `cmd:"" group:"node" help:"Show pending hints for other nodes."`
	Clientstats      clientStatsCommand     `cmd:"" group:"node" help:"Show CQL client connections."`
	Gettimeout       timeoutCommand         `cmd:"" group:"node" help:"Show the timeout of a type of request."`
}

// doCommands change the node. Their effects end with the process, unless they change data, files or the metadata.
type doCommands struct {
	Flush                   flushCommand              `cmd:"" group:"do" help:"Flush memtables to disk."`
	Compact                 compactCommand            `cmd:"" group:"do" help:"Compact data into the lowest level."`
	Rotatekeys              rotateKeysCommand         `cmd:"" group:"do" help:"Encrypt all files with the newest key."`
	RebuildIndex            rebuildIndexCommand       `cmd:"" name:"rebuild_index" group:"do" help:"Build secondary indexes of a table once more."`
	Killquery               killQueryCommand          `cmd:"" group:"do" help:"End a request of a CQL client."`
	Verify                  verifyCommand             `cmd:"" group:"do" help:"Verify the checksums of files."`
	Scrub                   scrubCommand              `cmd:"" group:"do" help:"Verify, and repair corrupt data."`
	Drain                   drainCommand              `cmd:"" group:"do" help:"Disconnect clients and flush, before the node is stopped."`
	Stopdaemon              stopCommand               `cmd:"" group:"do" help:"Stop the node's process; it drains first."`
	Snapshot                snapshotCommand           `cmd:"" group:"do" help:"Create a snapshot of the node's data."`
	Listsnapshots           listSnapshotsCommand      `cmd:"" group:"do" help:"List snapshots."`
	Clearsnapshot           clearSnapshotCommand      `cmd:"" group:"do" help:"Remove snapshots."`
	Verifysnapshot          verifySnapshotCommand     `cmd:"" group:"do" help:"Verify a snapshot's files."`
	Showsnapshot            showSnapshotCommand       `cmd:"" group:"do" help:"Show the manifest of a snapshot."`
	Import                  importCommand             `cmd:"" group:"do" help:"Add the rows of a snapshot to a table."`
	Backup                  backupCommand             `cmd:"" group:"do" help:"Make, list, verify and delete backups."`
	Restore                 restoreCommand            `cmd:"" group:"do" help:"Restore tables from a backup of a cluster."`
	Statusbinary            statusBinaryCommand       `cmd:"" group:"do" help:"Show whether CQL clients can connect."`
	Disablebinary           disableBinaryCommand      `cmd:"" group:"do" help:"Disconnect CQL clients and refuse new connections."`
	Enablebinary            enableBinaryCommand       `cmd:"" group:"do" help:"Accept CQL clients again."`
	Statushandoff           statusHandoffCommand      `cmd:"" group:"do" help:"Show whether hints are stored."`
	Disablehandoff          disableHandoffCommand     `cmd:"" group:"do" help:"Stop storing hints."`
	Enablehandoff           enableHandoffCommand      `cmd:"" group:"do" help:"Store hints again."`
	Getindexbuildthroughput buildThroughputCommand    `cmd:"" group:"do" help:"Show the rate at which indexes are built."`
	Setindexbuildthroughput setBuildThroughputCommand `cmd:"" group:"do" help:"Set the rate at which indexes are built."`
	Getlogginglevels        loggingCommand            `cmd:"" group:"do" help:"Show the log level."`
	Setlogginglevel         setLoggingCommand         `cmd:"" group:"do" help:"Set the log level."`
	Enableauditlog          enableAuditCommand        `cmd:"" group:"do" help:"Enable the audit log, or change its options."`
	Disableauditlog         disableAuditCommand       `cmd:"" group:"do" help:"Disable the audit log."`
	Getauditlog             getAuditCommand           `cmd:"" group:"do" help:"Show the options of the audit log."`
	TablesAccount           tablesAccountCommand      `cmd:"" group:"do" help:"Create, list, rotate and remove accounts of Azure Tables."`
	Reloadssl               reloadSSLCommand          `cmd:"" group:"do" help:"Read the certificate files again."`
}

// accessCommands change roles and access.
type accessCommands struct {
	ResetSuperuser    resetSuperuserCommand  `cmd:"" group:"access" help:"Give a superuser a new password. Works only on the machine of the node."`
	Updatecidrgroup   updateCIDRGroupCommand `cmd:"" group:"access" help:"Create a CIDR group or replace its ranges."`
	Dropcidrgroup     dropCIDRGroupCommand   `cmd:"" group:"access" help:"Remove a CIDR group."`
	Listcidrgroups    listCIDRGroupsCommand  `cmd:"" group:"access" help:"List the CIDR groups, or the ranges of one."`
	Getcidrgroupsofip cidrGroupsOfIPCommand  `cmd:"" group:"access" help:"List the CIDR groups that contain an address."`
}

// Groups returns the headings under which the help lists the subcommands. The keys are the groups in the tags of the
// commands.
func Groups() []kong.Group {
	return []kong.Group{
		{Key: "ring", Title: "Ring status:"},
		{Key: "change", Title: "Ring changes and repair:"},
		{Key: "node", Title: "Node status:"},
		{Key: "do", Title: "Node operations:"},
		{Key: "access", Title: "Roles and access:"},
	}
}

// AfterApply creates the session for the selected command. kong calls it after parsing, before Run. The output and the
// progress are separate streams, so that `cqld ctl status > file` contains the result only.
func (c *Commands) AfterApply(ctx context.Context, k *kong.Context) error {
	k.Bind(&session{ctx: ctx, where: &c.Where, json: c.JSON, out: os.Stdout, progress: os.Stderr})
	return nil
}

// session is one run of a command, which may execute several operations. It is used by one goroutine, except committed
// and job, which the callback of fetch sets before fetch returns.
type session struct {
	ctx   context.Context
	where *Where // the node
	json  bool
	// out receives the result only, so that it can be piped.
	out      io.Writer
	progress io.Writer // for bars and notes; not part of the result
	// committed is true once the node has reported that the operation succeeded.
	committed bool
	// job is the id of the job that performs the operation; empty means none, or not yet.
	job string
	// stops is true if the caller stops the node after an interrupt, which also ends the node's jobs.
	stops bool
}

// ask executes an operation on the node and prints its result: as JSON, or through text. An error of the operation is
// returned without output. The type parameters tie the arguments and the result to the operation, so that a command
// cannot decode another one's.
func ask[A, R any](s *session, op control.Operation[A, R], args A, text func(w io.Writer, result R) error) error {
	result, err := fetch(s, op, args)
	if err != nil {
		return err
	}
	return show(s, result, text)
}

// show prints a result: as JSON, or through text. Errors of the writer are returned, so that a closed pipe ends the
// command with a failure.
func show[R any](s *session, result R, text func(w io.Writer, result R) error) error {
	if s.json {
		// JSON contains all fields of the result; text selects what people need.
		b, err := json.MarshalIndent(result, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(s.out, string(b))
		return err
	}
	return text(s.out, result)
}

// fetch executes an operation on the node, with a progress bar if the output is interactive. It returns the result
// without printing it, for commands that combine several results or decide by them. The callback runs in this goroutine
// or another one of the client, so bar has a lock.
func fetch[A, R any](s *session, op control.Operation[A, R], args A) (R, error) {
	var none R
	// Each operation opens its own connection, so a node that has stopped in the meantime is noticed, and another one
	// can be chosen.
	client, err := s.where.client()
	if err != nil {
		return none, err
	}
	s.job = ""
	bar := newBar(s.progress)
	if s.json { // the output is read by a program
		bar.jobEvery = barEvery
	}
	result, err := control.Call(s.ctx, client, op, args, func(p control.Progress) {
		// The node's process may end after it has reported success, as after a decommission (orCommitted).
		s.committed = s.committed || p.Committed
		// The first job that is reported performs the operation. A command may execute several.
		if s.job == "" {
			s.job = p.Job
		}
		bar.show(p)
	})
	bar.end()
	// After an interrupt, tell the user how to follow the job.
	s.interrupted()
	return result, err
}

// quiet prints nothing, for commands without a result, like nodetool. With --json, the empty result is still printed.
func quiet[R any](io.Writer, R) error { return nil }
