// Package datadir lays out the data directory of a node: it creates directories that survive a power failure and that
// other users cannot enter, and refuses to start with data that belongs to another node or place.
//
// It does not read rows or metadata: storage and cluster own their subdirectories.
package datadir
