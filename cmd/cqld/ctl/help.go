package ctl

import (
	"fmt"

	"github.com/alecthomas/kong"
)

// helpCommand is for users of nodetool, whose help is a command. `cqld ctl help repair` prints the same text as `cqld
// ctl repair --help`.
type helpCommand struct {
	Command string `arg:"" optional:"" help:"The command; without it, all commands are listed."`
}

// Run prints the usage of `cqld ctl`, or of one of its commands, like --help.
func (c *helpCommand) Run(k *kong.Context) error {
	args := []string{"ctl"}
	if c.Command != "" {
		args = append(args, c.Command)
	}
	// Tracing finds the node of the command without running it or requiring its arguments.
	usage, err := kong.Trace(k.Kong, args)
	if err != nil {
		return err
	}
	// For an unknown word, kong selects the parent command.
	if n := usage.Selected(); n == nil || c.Command != "" && n.Parent == usage.Model.Node {
		return fmt.Errorf("there is no command %s", c.Command)
	}
	return usage.PrintUsage(false)
}
