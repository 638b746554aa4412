// Package backup stores backups of a cluster in a place that all nodes share: it writes, lists, verifies and deletes
// them, and reads the files in them as a file system. The place is a directory, or the objects of a bucket with a
// prefix.
//
//	URL/cqld-backups.json          the version of the layout
//	URL/backups/NAME/started.json  a backup that is being made, or was abandoned
//	URL/backups/NAME/shares/HOST   the files of one node, as long as the backup is being made
//	URL/backups/NAME/manifest.json written last: it makes the backup valid
//	URL/objects/HA/HASH            files of all backups by the SHA-256 of their content
//	URL/restoring/NAME/ID          when a restoration of a backup began, until it has ended
//	URL/deleted/NAME               when a backup was deleted
//	URL/partial/RANDOM             a file that is being written to a directory; it is renamed when it is synced
//
// Archived logs of nodes are in the same place. They lead from a backup to moments after it:
//
//	URL/log/CLUSTER/HOST/segments/HOUR/NAME  a part of the log of a node; NAME has its positions and times
//	URL/log/CLUSTER/HOST/until.json          until when an idle log is complete
//	URL/log/CLUSTER/HOST/begin.json          where the log of a node begins that was new
//	URL/log/CLUSTER/HOST/states/NAME         when the node has applied a state of the metadata
//	URL/log/CLUSTER/states/HASH.json         schema, roles and members; the same for all nodes
//
// A moment T is found in four steps. Each names what is missing:
//
//	Manifest     the newest backup whose end is before T
//	MomentState  the state with the greatest epoch that a node had applied at T
//	Way          for each member at T, segments from the beginning of its files' log, or of its own log if it has
//	             joined since, to the first with Until ≥ T
//	ReadSegment  their data, after their checksums were compared
//
// HOUR is of the time when a segment was stored, so that a restoration lists the hours after its backup only, and a
// sweep removes whole directories. Segments are written once, by one process of their node. They are not objects: no
// two are equal, and their names must have an order.
//
// Objects are shared: files of the storage engine never change, so a later backup stores only files that are new.
// Nothing is overwritten with another content. Deletion marks a backup; Sweep removes what no backup needs.
//
// It does not make checkpoints, and does not know rows or the form of logs: node/backups and node/archive do.
package backup
