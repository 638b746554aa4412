package node

import "cqld/storage/logarchive"

// archived returns how the storage engine keeps its log for the archive, or nil without backup_log. Stamps of its
// groups are of the hybrid clock, which follows the frames of other nodes: what a node acknowledges has an earlier
// stamp on each replica than what is sent after the acknowledgement.
func archived(n *Node) *logarchive.Options {
	if n.opts.CommitLog.Archive == "" {
		return nil
	}
	// What earlier processes have stamped is observed: the clock of a peer, which they followed, may have been ahead.
	return &logarchive.Options{Stamp: n.hlc.Next, Observe: n.hlc.Observe, KeepBytes: n.opts.CommitLog.ArchiveSpace}
}
