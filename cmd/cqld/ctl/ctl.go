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

// Commands are the subcommands of `cqld ctl`.
type Commands struct {
	Where
	JSON bool `name:"json" help:"Print the node's answer as JSON."`

	Status          statusCommand          `cmd:"" group:"ring" help:"Who is in the ring: up or down, load, what each owns."`
	Ring            ringCommand            `cmd:"" group:"ring" help:"Every token and its owner."`
	Describecluster describeClusterCommand `cmd:"" group:"ring" help:"Name, schema versions, nodes and keyspaces of the cluster."`
	Describering    describeRingCommand    `cmd:"" group:"ring" help:"The ranges of a keyspace and their replicas."`
	Getendpoints    endpointsCommand       `cmd:"" group:"ring" help:"Who holds a partition."`

	Getseeds   seedsCommand      `cmd:"" group:"ring" help:"The seeds, without the node itself."`
	Members    membersCommand    `cmd:"" group:"ring" aliases:"gossipinfo" help:"All that the node knows of each member."`
	Operations operationsCommand `cmd:"" group:"ring" help:"What changes the ring at this moment."`

	Decommission decommissionCommand `cmd:"" group:"change" help:"Hand over the node's data and leave the ring."`
	Removenode   removeNodeCommand   `cmd:"" group:"change" help:"Remove a dead node: the others fetch its data from each other."`
	Move         moveCommand         `cmd:"" group:"change" help:"Give the node other tokens."`
	Rebuild      rebuildCommand      `cmd:"" group:"change" help:"Fetch the node's data from the others."`
	Abort        abortCommand        `cmd:"" group:"change" help:"Take back an operation that changes the ring."`
	Repair       repairCommand       `cmd:"" group:"change" help:"Make replicas equal."`
	Cleanup      cleanupCommand      `cmd:"" group:"change" help:"Drop data that the node does not hold any more."`

	Info             infoCommand            `cmd:"" group:"node" help:"Load, uptime, memory, clients, disk."`
	Version          versionCommand         `cmd:"" group:"node" help:"What the node was built from."`
	Tablestats       tableStatsCommand      `cmd:"" group:"node" aliases:"cfstats" help:"Figures of tables."`
	Tablehistograms  tableHistogramsCommand `cmd:"" group:"node" help:"How long a table's reads took."`
	Toppartitions    topPartitionsCommand   `cmd:"" group:"node" help:"Which partitions are asked for most."`
	Tpstats          poolStatsCommand       `cmd:"" group:"node" help:"Who works and waits, and what failed."`
	Compactionstats  compactionStatsCommand `cmd:"" group:"node" help:"The state of the storage engine."`
	Netstats         netStatsCommand        `cmd:"" group:"node" help:"Streams, hints and read repair."`
	Listpendinghints pendingHintsCommand    `cmd:"" group:"node" help:"Hints for other nodes."`
	Clientstats      clientStatsCommand     `cmd:"" group:"node" help:"The CQL connections."`
	Gettimeout       timeoutCommand         `cmd:"" group:"node" help:"How long requests wait for replicas."`

	Flush            flushCommand          `cmd:"" group:"do" help:"Write memtables to disk."`
	Compact          compactCommand        `cmd:"" group:"do" help:"Bring data into its lowest level."`
	Drain            drainCommand          `cmd:"" group:"do" help:"Refuse clients and flush: the node can be stopped."`
	Snapshot         snapshotCommand       `cmd:"" group:"do" help:"Keep the data as it is now."`
	Listsnapshots    listSnapshotsCommand  `cmd:"" group:"do" help:"The snapshots."`
	Clearsnapshot    clearSnapshotCommand  `cmd:"" group:"do" help:"Remove snapshots."`
	Statusbinary     statusBinaryCommand   `cmd:"" group:"do" help:"Can CQL clients connect?"`
	Disablebinary    disableBinaryCommand  `cmd:"" group:"do" help:"Refuse CQL clients."`
	Enablebinary     enableBinaryCommand   `cmd:"" group:"do" help:"Let CQL clients connect again."`
	Statushandoff    statusHandoffCommand  `cmd:"" group:"do" help:"Are hints kept?"`
	Disablehandoff   disableHandoffCommand `cmd:"" group:"do" help:"Keep no hints from now on."`
	Enablehandoff    enableHandoffCommand  `cmd:"" group:"do" help:"Keep hints again."`
	Getlogginglevels loggingCommand        `cmd:"" group:"do" help:"The level of the log."`
	Setlogginglevel  setLoggingCommand     `cmd:"" group:"do" help:"Set the level of the log."`
	Help             helpCommand           `cmd:"" group:"do" help:"Show the commands, or the arguments and flags of one."`
}

// AfterApply makes the session for the command that runs.
func (c *Commands) AfterApply(k *kong.Context, ctx context.Context) error {
	k.Bind(&session{ctx: ctx, where: &c.Where, json: c.JSON, out: os.Stdout, progress: os.Stderr})
	return nil
}

// session is one run of a command.
type session struct {
	ctx      context.Context
	where    *Where
	json     bool
	out      io.Writer
	progress io.Writer
	// committed says that the node has reported that the operation succeeded.
	committed bool
}

// ask asks the node and prints its answer: as JSON, or as text does.
func ask[A, R any](s *session, op control.Operation[A, R], args A, text func(w io.Writer, result R) error) error {
	result, err := fetch(s, op, args)
	if err != nil {
		return err
	}
	return show(s, result, text)
}

// show prints a result: as JSON, or as text does.
func show[R any](s *session, result R, text func(w io.Writer, result R) error) error {
	if s.json {
		b, err := json.MarshalIndent(result, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(s.out, string(b))
		return err
	}
	return text(s.out, result)
}

// fetch asks the node, with a progress bar where somebody looks.
func fetch[A, R any](s *session, op control.Operation[A, R], args A) (R, error) {
	var none R
	client, err := s.where.client()
	if err != nil {
		return none, err
	}
	bar := newBar(s.progress)
	defer bar.end()
	return control.Call(s.ctx, client, op, args, func(p control.Progress) {
		s.committed = s.committed || p.Committed
		bar.show(p)
	})
}

// quiet shows nothing: the command did what it says.
func quiet[R any](io.Writer, R) error { return nil }
