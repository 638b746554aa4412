package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"cqld/cmd/cqld/ctl"
	"cqld/node/config"
	"cqld/node/control"
)

// dataDirFlag returns the flag, with a leading space, that commands need to find a directory, or "" if they need none.
// Printed commands can therefore be copied.
func dataDirFlag(dir string) string {
	// Both paths are absolute: kong expands the flag.
	if standard, err := filepath.Abs(ctl.DefaultDir); err == nil && standard == dir {
		return ""
	}
	return " --data-dir " + shellQuoted(dir)
}

// whichRing selects a ring. Commands on a ring that another process manages embed it. It finds a ring by its
// configuration files, even if no node is running.
type whichRing struct {
	DataDir string `help:"Data directory of the ring. Default: cqld-data, or else the ring that runs." type:"path"`
}

// directory returns the data directory of the ring. With the flag, it is not checked here; ringNodes reports a
// directory without a ring.
func (w *whichRing) directory() (string, error) {
	if w.DataDir != "" {
		return w.DataDir, nil
	}
	dir, err := ctl.FindDir()
	if err != nil {
		return "", err
	}
	// FindDir returns the default directory even if nothing is running there, so it must at least contain a ring.
	if present, err := ringConfigs(dir); err != nil || len(present) > 0 {
		return dir, err
	}
	return "", fmt.Errorf("no ring runs, and there is none in %s: start one with cqld local, or set --data-dir", dir)
}

// ringNode is a node of a ring that another process started. Whether it is running is checked each time, because a user
// may start or stop it.
type ringNode struct {
	name string // node1
	dir  string
	// options come from the configuration file, which only `cqld local` writes.
	options config.Options
}

// socket returns the control socket of the node.
func (n *ringNode) socket() string { return filepath.Join(n.dir, nodeDataDir, control.SocketName) }

// runs reports whether the node is running.
func (n *ringNode) runs() bool { return ctl.Running(filepath.Join(n.dir, nodeDataDir)) }

// ringNodes returns the nodes of the ring in a directory, sorted by directory name, so node10 comes before node2.
func ringNodes(dir string) (nodes []*ringNode, err error) {
	present, err := ringConfigs(dir)
	if err != nil {
		return nil, err
	}
	if len(present) == 0 {
		return nil, fmt.Errorf("there is no ring in %s", dir)
	}
	for _, path := range present {
		// Options that the file does not contain have their defaults.
		n := &ringNode{name: filepath.Base(filepath.Dir(path)), dir: filepath.Dir(path), options: config.Default()}
		if err := n.options.LoadFile(path); err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// nodes returns the ring's directory and its nodes.
func (w *whichRing) nodes() (dir string, nodes []*ringNode, err error) {
	if dir, err = w.directory(); err != nil {
		return "", nil, err
	}
	nodes, err = ringNodes(dir)
	return dir, nodes, err
}

// localStatusCommand does not communicate with the process of `cqld local`: it reads the files and probes the sockets.
type localStatusCommand struct{ whichRing }

// errRingDown is the error of `local status` if not all nodes are running, for scripts.
var errRingDown = errors.New("not all nodes run")

// Run prints the nodes of the ring and whether they run. The result is errRingDown unless all nodes answer on their
// control sockets.
func (c *localStatusCommand) Run(out io.Writer) error {
	dir, nodes, err := c.nodes()
	if err != nil {
		return err
	}
	up := 0
	fmt.Fprintf(out, "%-8s %-17s %-8s %-12s %s\n", "State", "CQL address", "Node", "Data center", "Log")
	for _, n := range nodes {
		state := "stopped"
		if n.runs() {
			state = "running"
			up++
		}
		fmt.Fprintf(out, "%-8s %-17s %-8s %-12s %s\n", state, n.options.Native(), n.name, n.options.Datacenter,
			filepath.Join(n.dir, logFile))
	}
	// How to connect is printed only for a complete ring.
	if up == len(nodes) {
		first := &nodes[0].options
		fmt.Fprintf(out, "\nConnect: %s. Inspect: cqld ctl%s status\n",
			cqlshLine(first.Listen.RPCAddress.String(), first.Listen.NativePort), dataDirFlag(dir))
		return nil
	}
	return errRingDown
}

// localStopCommand also ends the process of `cqld local`, because watch returns when no node is running.
type localStopCommand struct{ whichRing }

// Run stops all nodes of the ring, including those that were started by hand, and waits until their processes have
// ended. A ring without running nodes is not an error. A node that does not stop does not prevent others from stopping.
func (c *localStopCommand) Run(ctx context.Context, out io.Writer) error {
	dir, nodes, err := c.nodes()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(nodes))
	stopped := 0
	// Nodes drain at the same time, as with Ctrl-C. Each goroutine writes its own element of errs.
	for i, n := range nodes {
		if !n.runs() {
			continue
		}
		// Nodes that are not running are not counted.
		stopped++
		wg.Go(func() { errs[i] = ctl.Stop(ctx, control.DialSocket(n.socket()), stopTimeout) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d nodes of the ring in %s stopped.\n", stopped, len(nodes), dir)
	return nil
}
