// Command cqld runs a node of the database, or a ring of them on this machine.
//
// It holds no logic of the database: flags and a file become node.Options, and node runs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands are cqld's subcommands.
type commands struct {
	Local   localCommand   `cmd:"" help:"Start a ring of nodes on this machine, for development and tests; Ctrl-C stops it."`
	Start   startCommand   `cmd:"" help:"Run one node. Alone and without flags it is a cluster of one on 127.0.0.1:9042."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

func main() {
	var cli commands
	k := kong.Parse(&cli, kong.Name("cqld"),
		kong.Description("A wide-column database that Cassandra drivers and cqlsh use unchanged."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "cqld: "+err.Error())
		os.Exit(1)
	}
}
