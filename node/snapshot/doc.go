// Package snapshot describes the snapshots of a node: a manifest records the cluster, node, schema and files of a
// snapshot, so that its files can be verified, and a node can recognize restored data that does not fit.
//
//	DATA/snapshots/NAME/manifest.json        the manifest
//	DATA/snapshots/NAME/data/manifest.json   the same file, which a restoration copies with the data
//	DATA/snapshots/NAME/data/000123.sst …    the files of the storage engine
//
// It does not make the files: storage does. It does not know which snapshots a node has: node/admin does.
package snapshot
