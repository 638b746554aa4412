package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cqld/node/datadir"
)

// `cqld start` uses its data directory for one node. `cqld local` creates a subdirectory for each node of its ring:
// node1, node2, …, with a configuration file and the node's data directory.
const (
	// The layouts differ, so that one command cannot start the data of the other by mistake:
	//
	//		cqld start   DIR/ is the data directory of the node
	//		cqld local   DIR/node1/cqld.yaml, DIR/node1/data/, DIR/node2/cqld.yaml, ...
	nodeConfig  = "cqld.yaml"
	nodeDataDir = "data"
)

// ringConfigs returns the configuration files of the ring that `cqld local` keeps in dir, or none if there is no ring.
// Names are sorted as text: node10 comes before node2. A missing directory has no ring.
func ringConfigs(dir string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(dir), "node*/"+nodeConfig)
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names, err
}

// checkRingDirectory returns an error if `cqld local` must not use dir, because it contains a node's data but no ring.
// It changes nothing. A missing directory is accepted.
func checkRingDirectory(dir string) error {
	// A directory with a ring is accepted, even if it also contains a node's data.
	switch ring, err := ringConfigs(dir); {
	case err != nil || len(ring) > 0:
		return err
	case datadir.IsDataDir(dir):
		return fmt.Errorf("%s is the data directory of one node: start that node with `cqld start --data-dir %s`, "+
			"or give the ring another --data-dir", dir, dir)
	}
	return checkNotRingNode(dir)
}

// checkNodeDirectory returns an error if `cqld start` must not use dir because it contains a ring, or a node of a ring,
// but no data of its own.
func checkNodeDirectory(dir string) error {
	if datadir.IsDataDir(dir) {
		return nil
	}
	// The error names the right command, because both have the same default directory.
	ring, err := ringConfigs(dir)
	if err != nil {
		return err
	}
	if len(ring) > 0 {
		return fmt.Errorf("%s is the data directory of a ring of %d nodes: start the ring with `cqld local --nodes "+
			"%d --data-dir %s`, "+
			"one of its nodes with `cqld start --config %s`, or give the node another --data-dir", dir, len(ring),
			len(ring), dir, ring[0])
	}
	return checkNotRingNode(dir)
}

// checkNotRingNode returns an error if dir is the directory of one node of a ring. The node's data is in the
// subdirectory data, so a node started in dir itself would be empty.
func checkNotRingNode(dir string) error {
	config := filepath.Join(dir, nodeConfig)
	if _, err := os.Stat(config); err == nil && datadir.IsDataDir(filepath.Join(dir, nodeDataDir)) {
		return fmt.Errorf("%s is the directory of one node of a ring: start that node with `cqld start --config "+
			"%s`, or give another --data-dir", dir, config)
	}
	return nil
}
