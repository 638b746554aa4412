// Command cqld runs a node of the database, or a ring of them on this machine.
//
// It contains no database logic: it converts flags and a configuration file to config.Options, and runs package node.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"cqld/cmd/cqld/bench"
	"cqld/cmd/cqld/certs"
	"cqld/cmd/cqld/ctl"
	"cqld/cmd/cqld/recover"
)

// commands are the subcommands of cqld, in the order of the help.
type commands struct {
	Local   localCommands    `cmd:"" help:"Run a ring on this machine, for development and tests; Ctrl-C stops it."`
	Restore restoreCommand   `cmd:"" help:"Start a ring on this machine with a copy of a backup."`
	Start   startCommand     `cmd:"" help:"Run one node. Without flags, it is a single-node cluster on 127.0.0.1:9042."`
	Ctl     ctl.Commands     `cmd:"" help:"Inspect and manage a running node; replaces nodetool."`
	Recover recover.Commands `cmd:"" help:"Recover a cluster that has lost a majority of its voters for good."`
	Certs   certs.Commands   `cmd:"" help:"Create and renew certificates for TLS."`
	Bench   bench.Commands   `cmd:"" help:"Measure the throughput of running nodes."`
	Version versionCommand   `cmd:"" help:"Print the version."`
}

// usageExit is the exit status after a usage error; other failures exit with 1.
const usageExit = 2

func main() {
	// First of all, because every file that the process creates must be private.
	restrictFiles()
	var cli commands
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// kong would return an error for an empty command line.
	args, done := shortcut(os.Args[1:], os.Stdout)
	if done {
		return
	}
	parser := newParser(ctx, &cli)
	k, err := parser.Parse(args)
	if err != nil {
		fmt.Fprint(os.Stderr, usageError(parser, err))
		os.Exit(usageExit)
	}
	// Commands return errors instead of exiting, so that their deferred calls run.
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "cqld: "+err.Error())
		os.Exit(1)
	}
}

// newParser returns the parser of the command line, which sets cli. Commands receive ctx and the standard output as
// arguments of their Run methods. ctx ends with SIGINT or SIGTERM. It panics if a command has an invalid tag; every
// test of the command line would detect that.
func newParser(ctx context.Context, cli *commands) *kong.Kong {
	return kong.Must(cli, kong.Name("cqld"), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(os.Stdout, (*io.Writer)(nil)),
		kong.Description("A wide-column database that is compatible with Cassandra drivers, cqlsh and Azure Tables "+
			"clients."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.ExplicitGroups(ctl.Groups()))
}
