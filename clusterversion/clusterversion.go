// Package clusterversion defines the cluster version, which decides which formats and features the nodes of a cluster
// use while they run different releases.
//
// Each build supports a range of cluster versions (Supported). The metadata of a cluster contain one version, which all
// members support: a new release starts with the formats of the release before, so that each node can go back to it.
// When all members run the new release, an operator finalizes the upgrade: the cluster version rises, and never falls.
//
//	release 0.1.0   supports 1        ┐ a ring of both runs at version 1
//	release 0.2.0   supports 1 and 2  ┘ after the last 0.1.0: finalize, version 2; 0.1.0 is refused from then on
//
// Code that writes a newer format, or sends a newer message, asks the version of the metadata that it has:
//
//	if m.ClusterVersion.Enables(clusterversion.V2) { … }
//
// Readers do not ask: they read all formats of their range at all times, because the version rises on each node at
// another moment.
package clusterversion

import "fmt"

// Version is a cluster version. Zero is no version.
type Version uint16

// The cluster versions. Each change of a format or a message that an older release cannot read gets the next one
// (CONTRIBUTING.md, "Change a format").
const (
	V1 Version = 1 // release 0.1.0
)

// Enables reports whether what a version introduced may be used at cluster version v.
func (v Version) Enables(introduced Version) bool { return v >= introduced }

// Range contains the cluster versions from Min to Max.
type Range struct {
	Min Version `json:"min"`
	Max Version `json:"max"`
}

// Supported returns the cluster versions that this build supports.
func Supported() Range { return Range{Min: V1, Max: V1} }

// Includes reports whether v is in the range.
func (r Range) Includes(v Version) bool { return r.Min <= v && v <= r.Max }

// OrFirst returns the range, or only the first version if the range is zero: a node whose record has no versions has
// the first build that recorded them, or an earlier one.
func (r Range) OrFirst() Range {
	if r == (Range{}) {
		return Range{V1, V1}
	}
	return r
}

// Valid reports whether the range contains a version.
func (r Range) Valid() bool { return 0 < r.Min && r.Min <= r.Max }

// Check returns an error that says what to do if a build that supports r cannot be part of a cluster of version v.
func (r Range) Check(v Version) error {
	switch {
	case r.Includes(v):
		return nil
	case v > r.Max:
		return fmt.Errorf("the cluster has version %d, this build of cqld supports %v: start a newer build, because "+
			"the upgrade was finalized", v, r)
	}
	return fmt.Errorf("the cluster has version %d, this build of cqld supports %v: upgrade all nodes to a release "+
		"that supports both, and finalize that upgrade first", v, r)
}

// String returns the versions, such as 1, or 1 to 2.
func (r Range) String() string {
	if r.Min == r.Max {
		return fmt.Sprintf("version %d", r.Min)
	}
	return fmt.Sprintf("versions %d to %d", r.Min, r.Max)
}
