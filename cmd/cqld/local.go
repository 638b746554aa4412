package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cqld/azuretables"
	"cqld/cmd/cqld/ctl"
	"cqld/cmd/cqld/running"
	"cqld/internal/memory"
	"cqld/node/config"
)

// localCommands are the subcommands of `cqld local`; without one, the ring starts. withargs lets `cqld local --nodes 3`
// work without the word start.
type localCommands struct {
	Start  localCommand       `cmd:"" default:"withargs" help:"Start a ring; the default."`
	Status localStatusCommand `cmd:"" help:"Show which nodes of a ring run."`
	Stop   localStopCommand   `cmd:"" help:"Stop a ring, also one that was started with --detach."`
}

// localCommand is `cqld local start`. Pointers are nil if the flag is not given: an existing ring then keeps its ports.
// The processes and their connections:
//
//	cqld local ──starts──▶ cqld start --config node1/cqld.yaml
//	    ▲ status lines ◀──── standard output
//	    └ a pipe ──────────▶ standard input: its end stops the node
type localCommand struct {
	Nodes       int     `help:"Number of nodes." default:"4"`
	Datacenters int     `help:"Number of data centers; it divides --nodes." default:"1"`
	Port        *uint16 `help:"Port for CQL clients. Default: 9042, or a free one."`
	TablesPort  *uint16 `help:"Port for Azure Tables clients; 0 disables it. Default: 10002, or a free one."`
	StoragePort *uint16 `help:"Port between the nodes. Default: 7000, or a free one."`
	// DataDir contains node1, node2, … and, with Secure, the directory security. It is absolute, because kong expands
	// the type path.
	DataDir string `help:"Directory for the nodes' data." default:"cqld-data" type:"path"`
	Fresh   bool   `help:"Delete the contents of the data directory first."`
	Secure  bool   `help:"Require TLS and logins; make certificates and a superuser."`
	Detach  bool   `help:"Return when the ring is ready. 'cqld local stop' stops it."`
	// Supervised is set by detach for the process that it starts, never by users: the process then writes readyFile.
	Supervised bool `hidden:"" help:"Run as the process of --detach."`
	// Restoring is set by restoreCommand to the content of incompleteFile. Empty means that no backup is being
	// restored.
	Restoring string `hidden:"" help:"Begin or continue a copy of a backup."`
	LogLevel  string `help:"Log level: debug, info, warn, error." default:"info" enum:"debug,info,warn,error"`

	security *security // nil without Secure
}

const (
	// localNodesMax bounds the processes that one command starts. It is less than portStep, so that rings with
	// consecutive ports do not overlap.
	localNodesMax = 64
	// agreeTimeout is how long the ring may start without progress before the command gives up.
	agreeTimeout = 60 * time.Second
)

// Run starts the ring, waits until its nodes agree, and stops it when ctx ends.
func (c *localCommand) Run(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	// The detached process repeats the checks, and does everything else.
	if c.Detach {
		d, err := c.detach(ctx)
		if err == nil {
			fmt.Println(d.printed)
		}
		return err
	}
	return c.run(ctx, func(context.Context) error { return nil })
}

// check returns an error if a flag is wrong, or the ring is running.
func (c *localCommand) check() error {
	if c.Nodes < 1 || c.Nodes > localNodesMax {
		return fmt.Errorf("--nodes: %d is not between 1 and %d", c.Nodes, localNodesMax)
	}
	if c.Datacenters < 1 || c.Nodes%c.Datacenters != 0 {
		return fmt.Errorf("--datacenters: %d nodes cannot be divided evenly into %d data centers", c.Nodes,
			c.Datacenters)
	}
	// The control sockets show whether nodes run, including nodes that were started by hand: prepareData must not
	// rewrite the configuration of a running node.
	if ctl.Running(c.DataDir) {
		return fmt.Errorf("a ring in %s runs already: see cqld local status%s, or choose another --data-dir",
			c.DataDir, dataDirFlag(c.DataDir))
	}
	return nil
}

// run starts the ring, calls fill when its nodes agree, prints how to connect, and stops the ring when ctx ends. After
// an error, including errors of fill, no node is left running.
func (c *localCommand) run(ctx context.Context, fill func(context.Context) error) error {
	members, err := c.layout()
	if err != nil {
		return err
	}
	if err := c.prepareData(members); err != nil {
		return err
	}
	r := newLocalRing(members)
	if c.security != nil {
		r.flags = c.security.flags()
	}
	begin := time.Now()
	// A node that does not start stops the ones before it.
	if err := r.start(c.LogLevel); err != nil {
		return errors.Join(err, r.stop())
	}
	// From here on `cqld ctl` finds the ring from any working directory.
	defer running.Add(c.DataDir)()
	// Until its nodes agree, the ring would refuse clients or schema changes.
	if err := r.awaitAgreement(ctx, agreeTimeout); err != nil {
		return errors.Join(err, r.stop())
	}
	// Measured before fill, because the time for a restore is not start-up time.
	took := time.Since(begin)
	if err := fill(ctx); err != nil {
		return errors.Join(err, r.stop())
	}
	c.greet(r, took)
	// Created after the greeting, because the waiting process prints the output as soon as the file exists.
	if c.Supervised {
		if err := os.WriteFile(c.readyFile(), nil, 0o600); err != nil {
			return errors.Join(err, r.stop())
		}
		defer os.Remove(c.readyFile())
	}
	// All nodes have stopped, which watch has reported. Nodes that were stopped on request, for example by `cqld local
	// stop`, have no error; other exits must result in an error for scripts.
	if !r.watch(ctx, watchEvery) {
		return errors.Join(r.failed(), r.stop())
	}
	fmt.Println("\nStopping …")
	return r.stop()
}

// member is one node of the local ring. It does not change while the ring runs.
type member struct {
	// index counts from 1, as in the names of directories and certificates.
	index   int
	address string
	port    uint16 // for CQL
	storage uint16 // for the other nodes
	tables  uint16 // for Azure Tables; 0 means none
	center  string // data center
	dir     string
}

// native returns the address for CQL clients, HOST:PORT.
func (m member) native() string { return fmt.Sprintf("%s:%d", m.address, m.port) }

// connectionString returns the connection string with which the Azure SDKs reach the node's tables over http or https.
// As with Azurite, the account is in the path of the endpoint, because a local address has no host name per account.
func connectionString(scheme string, m member, key string) string {
	return fmt.Sprintf("DefaultEndpointsProtocol=%s;AccountName=%s;AccountKey=%s;TableEndpoint=%s://%s:%d/%s;",
		scheme, azuretables.DevelopmentAccount, key, scheme, m.address, m.tables, azuretables.DevelopmentAccount)
}

// config returns the path of the node's configuration file.
func (m member) config() string { return filepath.Join(m.dir, nodeConfig) }

// center returns the data center of the node with an index from 0. Each data center has a contiguous block of nodes: of
// six nodes in two data centers, nodes 1 to 3 are in datacenter1, and 4 to 6 in datacenter2.
func (c *localCommand) center(i int) string {
	return fmt.Sprintf("datacenter%d", 1+i*c.Datacenters/c.Nodes)
}

// prepareData creates the nodes' directories and configuration files. It refuses the directory of a ring with another
// number of nodes or other data centers, the directory of a `cqld start` node, and the directory of a secure ring
// without --secure. It changes nothing before checkRingDirectory has accepted the directory. The nodes create their
// data directories themselves.
func (c *localCommand) prepareData(members []member) error {
	// A ring must not be created next to the data of a single node.
	if err := checkRingDirectory(c.DataDir); err != nil {
		return err
	}
	// The configuration files determine the ring's nodes, with or without data.
	present, err := ringConfigs(c.DataDir)
	if err != nil {
		return err
	}
	if c.Fresh {
		if err := removeRing(c.DataDir, present); err != nil {
			return err
		}
		present = nil
	}
	if err := c.checkCopy(len(present) > 0); err != nil {
		return err
	}
	// With fewer nodes, members of the cluster would be down.
	if len(present) > 0 && len(present) != len(members) {
		return fmt.Errorf("%s holds a ring of %d nodes, not %d: use --nodes %d, --fresh or another --data-dir",
			c.DataDir, len(present), len(members), len(present))
	}
	// The error ends with an option to use, and this message adds others.
	if err := sameDatacenters(present, members); err != nil {
		return fmt.Errorf("%s holds a ring in which %w, --fresh or another --data-dir", c.DataDir, err)
	}
	switch {
	case c.Secure:
		if c.security, err = prepareSecurity(c.DataDir, members, time.Now()); err != nil {
			return err
		}
	// Without --secure, the stored users and certificates would have no effect, and all local users could access the
	// ring.
	case isSecured(c.DataDir):
		return fmt.Errorf("%s holds a ring that requires TLS and logins: use --secure, --fresh or another --data-dir",
			c.DataDir)
	}
	// By default, each process would use the memory of the whole machine.
	figure, err := memory.Detect(memory.Local())
	if err != nil {
		return err
	}
	// From now on, the directory contains an incomplete ring.
	if c.Restoring != "" {
		if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
			return err
		}
		if err := writePrivate(incompleteFile(c.DataDir), []byte(c.Restoring)); err != nil {
			return err
		}
	}
	// Written at each start, because ports and the share of memory may change.
	for _, m := range members {
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			return err
		}
		yaml := m.yaml(members[0], figure.Bytes/int64(len(members)))
		if c.security != nil {
			yaml += c.security.options(m)
		}
		// A crash must not leave an empty file, because the node would use default ports and the default data center.
		if err := writePrivate(m.config(), []byte(yaml)); err != nil {
			return err
		}
	}
	return nil
}

// removeRing deletes a ring that does not run. It deletes only files that `cqld local` and `cqld restore` have written,
// because --data-dir may name any directory. configs are the results of ringConfigs.
func removeRing(dir string, configs []string) error {
	// The nodes' directories including their data.
	for _, p := range configs {
		if err := os.RemoveAll(filepath.Dir(p)); err != nil {
			return err
		}
	}
	if isSecured(dir) {
		if err := os.RemoveAll(filepath.Join(dir, securityDir)); err != nil {
			return err
		}
	}
	if err := os.Remove(incompleteFile(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// sameDatacenters refuses to restart a ring with other data centers, because a member cannot change its data center. It
// returns the error of an unreadable file, or an error for the first node that differs, with the ring's number of data
// centers.
func sameDatacenters(configs []string, members []member) error {
	var wrong error
	centers := map[string]bool{}
	// All files are read even if one differs, to count the ring's data centers.
	for _, path := range configs {
		o := config.Default()
		if err := o.LoadFile(path); err != nil {
			return err
		}
		centers[o.Datacenter] = true
		for _, m := range members {
			if path == m.config() && o.Datacenter != m.center && wrong == nil {
				wrong = fmt.Errorf("node %d is in %s, not in %s", m.index, o.Datacenter, m.center)
			}
		}
	}
	// Only a new ring can have another division.
	if wrong != nil {
		return fmt.Errorf("%w, and cannot change its data center: use --datacenters %d", wrong, len(centers))
	}
	return nil
}

// yaml returns the configuration of a node that may use share bytes of the memory of this machine. The first node is
// the only seed of every node, including itself, so it creates the cluster. The result has the format of
// cassandra.yaml; options that are not set have their defaults.
func (m member) yaml(seed member, share int64) string {
	var b strings.Builder
	b.WriteString("# Written by `cqld local`. Start this node alone with: cqld start --config FILE\n")
	fmt.Fprintf(&b, "cluster_name: %s\n", localCluster)
	fmt.Fprintf(&b, "listen_address: %s\nstorage_port: %d\n", m.address, m.storage)
	fmt.Fprintf(&b, "rpc_address: %s\nnative_transport_port: %d\ntables_port: %d\n", m.address, m.port, m.tables)
	fmt.Fprintf(&b, "datacenter: %s\n", m.center)
	// The port is included, because seeds on a single loopback address differ by storage_port.
	fmt.Fprintf(&b, "seeds: [ \"%s:%d\" ]\n", seed.address, seed.storage)
	fmt.Fprintf(&b, "data_file_directories: [ %q ]\n", filepath.Join(m.dir, nodeDataDir))
	fmt.Fprintf(&b, "memory_limit: %dMiB\n", share>>20)
	// A snapshot costs a flush, and test programs truncate and drop tables frequently.
	b.WriteString("auto_snapshot: false\n")
	return b.String()
}

// greet prints the nodes, how clients connect and how the ring is stopped. took is the time from the start of the first
// process until agreement.
func (c *localCommand) greet(r *localRing, took time.Duration) {
	fmt.Printf("cqld: %d nodes ready after %.1f s. Data in %s.\n\n", len(r.nodes), took.Seconds(), c.DataDir)
	r.print()
	var points []string
	for _, n := range r.nodes {
		points = append(points, n.native())
	}
	// Without --secure, the ring has no superuser and another scheme.
	if c.security != nil {
		c.security.greet(r.nodes, points)
	} else {
		greetOpen(r.nodes, points)
	}
	fmt.Printf("\nInspect the ring with: cqld ctl%s status\n", dataDirFlag(c.DataDir))
	if c.Supervised {
		fmt.Printf("Stop it with: cqld local stop%s\n", dataDirFlag(c.DataDir))
		return
	}
	fmt.Println("Press Ctrl-C to stop it.")
}

// centers returns the names of the data centers: "datacenter1 or datacenter2". Nodes of a data center are adjacent, so
// Compact removes all duplicates. A driver needs the name of one data center; any of them works.
func centers(nodes []*localNode) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.center)
	}
	return strings.Join(slices.Compact(names), " or ")
}

// greetOpen prints how clients connect to a ring without TLS and logins.
func greetOpen(nodes []*localNode, points []string) {
	first := nodes[0].member
	fmt.Printf("\nConnect:\n  %s\n  drivers: contact points %s, local data center %s\n",
		cqlshLine(first.address, first.port), strings.Join(points, ", "), centers(nodes))
	// Without authentication, the development account with its public key exists.
	if first.tables != 0 {
		fmt.Printf("  Azure Tables: AZURE_STORAGE_CONNECTION_STRING=%q\n",
			connectionString("http", first, azuretables.DevelopmentKey))
	}
}
