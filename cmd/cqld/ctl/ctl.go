package ctl

import (
	"context"
	"encoding/json"
	"errors"
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

	Info infoCommand `cmd:"" group:"node" help:"The node: load, uptime, memory, clients."`
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
}

// ask asks the node and prints its answer: as JSON, or as show does.
func ask[A, R any](s *session, op control.Operation[A, R], args A, show func(w io.Writer, result R) error) error {
	result, err := fetch(s, op, args)
	if err != nil {
		return err
	}
	if s.json {
		b, err := json.MarshalIndent(result, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(s.out, string(b))
		return err
	}
	return show(s.out, result)
}

// fetch asks the node, with a progress bar where somebody looks.
func fetch[A, R any](s *session, op control.Operation[A, R], args A) (R, error) {
	var none R
	client, err := s.where.client()
	if err != nil {
		return none, err
	}
	bar := newBar(s.progress)
	result, err := control.Call(s.ctx, client, op, args, bar.show)
	bar.end()
	if err != nil {
		var told *control.Error
		if !errors.As(err, &told) {
			return none, err
		}
		return none, fmt.Errorf("%s: %w", op.Name, told)
	}
	return result, nil
}

// quiet shows nothing: the command did what it says.
func quiet[R any](io.Writer, R) error { return nil }
