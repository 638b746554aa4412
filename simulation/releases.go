package simulation

import "cqld/clusterversion"

// releases are the releases of cqld that the machines of a ring have. A test sets others with Options.Made, and then
// their forms of messages, too (network.Network.Encode).
type releases interface {
	// versions returns the cluster versions that the build on a machine supports.
	versions(*Node) clusterversion.Range
	// refused reports whether an error is the expected one for the release of a machine.
	refused(*Node, error) bool
}

// oneRelease is this build on all machines.
type oneRelease struct{}

func (oneRelease) versions(*Node) clusterversion.Range { return clusterversion.Supported() }
func (oneRelease) refused(*Node, error) bool           { return false }
