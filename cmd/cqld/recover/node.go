package recover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"cqld/cluster/recovery"
	"cqld/node/config"
	"cqld/node/datadir"
	"cqld/node/storekeys"
	"cqld/storage/encryption"
)

// node is a stopped node of this machine.
type node struct {
	dir    string
	disk   *recovery.Disk
	state  *recovery.State
	report *recovery.Report
}

// open opens the data directories. The caller closes them.
func (c *nodes) open() (all []*node, err error) {
	keys, err := storekeys.LoadFrom(context.Background(), &config.KeySource{KeyFile: c.KeyFile, Keys: c.Key})
	if err != nil {
		return nil, err
	}
	for _, dir := range c.DataDir {
		n, err := open(dir, keys)
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// open opens the data directory of one node. Without keys, its files must not be encrypted.
func open(dir string, keys *encryption.Keys) (*node, error) {
	// Opening a missing log would create one.
	if !datadir.IsDataDir(dir) {
		return nil, errors.New("not the data directory of a node")
	}
	log := filepath.Join(dir, datadir.Metadata)
	fs, err := storekeys.Disk(nil, keys, log)
	if err != nil {
		return nil, err
	}
	disk, err := recovery.Open(log, fs)
	if err != nil {
		return nil, fmt.Errorf("%w (the node must be stopped)", err)
	}
	n := &node{dir: dir, disk: disk}
	if n.state, err = disk.Read(); err == nil {
		n.report, err = recovery.Inspect(n.state)
	}
	if err != nil {
		_ = disk.Close() // nothing was written
		return nil, err
	}
	return n, nil
}

// closeAll closes data directories. Everything written is already durable.
func closeAll(all []*node) {
	for _, n := range all {
		_ = n.disk.Close()
	}
}

// reportsOf returns the reports of nodes.
func reportsOf(all []*node) (out []*recovery.Report) {
	for _, n := range all {
		out = append(out, n.report)
	}
	return out
}

// adopt makes the node a member of a recovered cluster. The copy of the file is made durable first.
func (n *node) adopt(out io.Writer, f *recovery.File) error {
	b, err := f.Encode()
	if err != nil {
		return err
	}
	if !f.Adopted(&n.state.Identity) {
		// Checked before the copy is written: a node that refuses the file keeps the copy of its own recovery.
		if _, err := f.Adopt(n.state); err != nil {
			return fmt.Errorf("%s: %w", n.dir, err)
		}
		if err := datadir.WriteDurableOn(n.disk.FS(), n.copyName(), b); err != nil {
			return fmt.Errorf("write %s: %w", n.copyName(), err)
		}
	}
	changed, err := n.disk.Update(f)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", n.dir, err)
	case changed:
		fmt.Fprintf(out, "%s: node %s takes part in recovery %s\n", n.dir, n.report.Address, f.ID())
	default:
		fmt.Fprintf(out, "%s: node %s already takes part in recovery %s\n", n.dir, n.report.Address, f.ID())
	}
	return nil
}

// copyName returns the path of the file's copy in the data directory. With the copy, an interrupted recovery can be
// continued even if the file is lost. It contains secrets.
func (n *node) copyName() string { return filepath.Join(n.dir, datadir.Recovery) }

// copied returns the copy of the file of the last recovery that the node adopted, or was about to adopt; nil means
// none.
func (n *node) copied() (*recovery.File, error) {
	name := n.copyName()
	f, err := n.disk.FS().Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	file, err := recovery.DecodeFile(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return file, nil
}

// readReports reads the reports of nodes on other machines.
func readReports(names []string) (out []*recovery.Report, err error) {
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		r, err := recovery.DecodeReport(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, r)
	}
	return out, nil
}
