package ctl

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"cqld/node/control"
)

// rebuildIndexCommand requires at least one index, like nodetool rebuild_index. It waits for the builds on this node.
type rebuildIndexCommand struct {
	Keyspace string   `arg:"" help:"The keyspace."`
	Table    string   `arg:"" help:"The table."`
	Indexes  []string `arg:"" help:"Names of indexes, also as table.index or keyspace.table.index."`
}

// Run rebuilds indexes, and waits for the builds.
func (c *rebuildIndexCommand) Run(s *session) error {
	args := control.IndexArgs{TableArgs: control.TableArgs{Keyspace: c.Keyspace, Table: c.Table}}
	for _, name := range c.Indexes {
		// Names of indexes contain no dots, so everything before the last one is the table or keyspace.
		args.Indexes = append(args.Indexes, name[strings.LastIndexByte(name, '.')+1:])
	}
	return ask(s, control.RebuildIndex, args, quiet[control.None])
}

// viewBuildStatusCommand accepts the view as one word or two, like nodetool. `viewbuildstatus shop.by_price` and
// `viewbuildstatus shop by_price` are the same.
type viewBuildStatusCommand struct {
	Keyspace string `arg:"" help:"The keyspace, or keyspace.view."`
	View     string `arg:"" optional:"" help:"The materialized view."`
}

// errViewNotBuilt ends the command with status 1, like nodetool.
var errViewNotBuilt = errors.New("the view is not built on all nodes")

// Run prints on which nodes a view is built.
func (c *viewBuildStatusCommand) Run(s *session) error {
	// The control protocol treats the view as a table.
	args := control.TableArgs{Keyspace: c.Keyspace, Table: c.View}
	if c.View == "" {
		keyspace, view, ok := strings.Cut(c.Keyspace, ".")
		if !ok {
			return errors.New("viewbuildstatus requires keyspace and view name arguments")
		}
		args = control.TableArgs{Keyspace: keyspace, Table: view}
	}
	r, err := fetch(s, control.ViewBuildOf, args)
	if err != nil {
		return err
	}
	// The table is printed in either case; only the exit status differs.
	if err := show(s, r, showViewBuild); err != nil {
		return err
	}
	if !viewBuilt(r) {
		return errViewNotBuilt
	}
	return nil
}

// viewBuilt reports whether all nodes have built the view. A view without any status is not built. A status is SUCCESS
// or STARTED, as in system_distributed.view_build_status, or UNKNOWN.
func viewBuilt(r control.ViewBuild) bool {
	for _, h := range r.Hosts {
		if h.Status != "SUCCESS" {
			return false
		}
	}
	return len(r.Hosts) > 0
}

// showViewBuild prints nodetool's sentence, and the status of each node until all have succeeded.
func showViewBuild(w io.Writer, r control.ViewBuild) error {
	p := &printer{w: w}
	if viewBuilt(r) {
		p.line("%s.%s has finished building", r.Keyspace, r.Table)
		return p.err
	}
	p.line("%s.%s has not finished building; node status is below.\n", r.Keyspace, r.Table)
	t := newTable("Host", "Info")
	for _, h := range r.Hosts {
		t.row("/"+h.Address, h.Status)
	}
	p.table(t)
	return p.err
}

// buildThroughputCommand prints the rate in MiB per second; the protocol has bytes.
type buildThroughputCommand struct{}

// Run prints the bound on the rate of builds.
func (c *buildThroughputCommand) Run(s *session) error {
	return ask(s, control.BuildThroughputOf, control.None{}, showBuildThroughput)
}

// showBuildThroughput prints a rate; 0 means no limit.
func showBuildThroughput(w io.Writer, t control.Throughput) error {
	_, err := fmt.Fprintf(w, "Current index build throughput: %g MiB/s\n", float64(t.BytesPerSecond)/mebibyte)
	return err
}

// mebibyte is in bytes.
const mebibyte = 1 << 20

// setBuildThroughputCommand takes MiB, like the output of getindexbuildthroughput.
type setBuildThroughputCommand struct {
	Rate int64 `arg:"" help:"MiB of rows that a node reads in a second to build indexes; 0 means no bound."`
}

// Run changes the bound on the rate of builds until the node is restarted.
func (c *setBuildThroughputCommand) Run(s *session) error {
	rate, err := bytesPerSecond(c.Rate)
	if err != nil {
		return err
	}
	return ask(s, control.SetBuildThroughput, control.Throughput{BytesPerSecond: rate}, quiet[control.Throughput])
}

// bytesPerSecond converts a rate from MiB per second. It refuses a rate that would overflow, because the result could
// be 0, which means no limit.
func bytesPerSecond(rate int64) (int64, error) {
	if rate < 0 || rate > math.MaxInt64/mebibyte {
		return 0, fmt.Errorf("the rate must be from 0 to %d MiB/s; 0 means no bound", int64(math.MaxInt64/mebibyte))
	}
	return rate * mebibyte, nil
}

// printBuilds prints index builds like nodetool's compactions. Without builds it prints nothing, not even a table
// header.
func printBuilds(p *printer, builds []control.IndexBuild) {
	if len(builds) == 0 {
		return
	}
	t := newTable("id", "compaction type", "target", "completed", "total", "unit", "progress")
	for _, b := range builds {
		// The words are the task types of nodetool compactionstats.
		kind, part := "Secondary index build", "n/a"
		if b.Kind == "view_build" {
			kind = "View build"
		}
		if b.Total > 0 {
			// Two digits, as in nodetool; a total of 0 is not known yet.
			part = fmt.Sprintf("%.2f%%", 100*float64(b.Done)/float64(b.Total))
		}
		t.row(b.ID, kind, b.Target, fmt.Sprint(b.Done), fmt.Sprint(b.Total), b.Unit, part)
	}
	p.table(t)
	p.line("")
}
