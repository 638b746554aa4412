package ctl

import (
	"fmt"
	"io"

	"cqld/node/control"
)

// upgradeCommand groups the subcommands for rolling upgrades. Without a subcommand, it shows the status.
type upgradeCommand struct {
	Status   upgradeStatusCommand   `cmd:"" default:"1" help:"Show the cluster version, and what each node supports."`
	Finalize upgradeFinalizeCommand `cmd:"" help:"Raise the cluster version. Nodes cannot go back then."`
}

type upgradeStatusCommand struct{}

// Run shows the state of an upgrade.
func (upgradeStatusCommand) Run(s *session) error {
	return ask(s, control.UpgradeStatus, control.None{}, showUpgrade)
}

type upgradeFinalizeCommand struct{}

// Run finalizes an upgrade, and shows the state after that.
func (upgradeFinalizeCommand) Run(s *session) error {
	return ask(s, control.UpgradeFinalize, control.None{}, showUpgrade)
}

// showUpgrade prints the cluster version, one line for each node, and what to do next.
func showUpgrade(w io.Writer, u control.Upgrade) error {
	p := &printer{w: w}
	p.line("Cluster version: %d", u.ClusterVersion)
	t := newTable("Node", "State", "Build", "Supports", "Waits")
	waiting := 0
	for _, n := range u.Nodes {
		state, build, waits := "up", n.Build, n.Waits
		if !n.Up {
			state = "down"
		}
		// A node that is down cannot report its build.
		if build == "" {
			build = "?"
		}
		if waits == "" {
			waits = "-"
		} else {
			waiting++
		}
		t.row(n.Address, state, build, versionsText(n.Oldest, n.Newest), waits)
	}
	if p.err != nil {
		return p.err
	}
	if err := t.print(w); err != nil {
		return err
	}
	switch {
	case u.Next > u.ClusterVersion:
		p.line("All nodes support version %d. Finalize the upgrade when no node has to go back: cqld ctl upgrade "+
			"finalize", u.Next)
	case waiting > 0:
		verb := "have"
		if waiting == 1 {
			verb = "has"
		}
		p.line("The upgrade is in progress: %s %s to be upgraded.", counted(waiting, "node"), verb)
	default:
		p.line("There is nothing to finalize.")
	}
	return p.err
}

// versionsText formats a range of cluster versions: 1, or 1-2.
func versionsText(oldest, newest int) string {
	if oldest == newest {
		return fmt.Sprint(oldest)
	}
	return fmt.Sprintf("%d-%d", oldest, newest)
}
