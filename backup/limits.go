package backup

import "time"

const (
	// manifestBytesMax bounds manifests and marks that are read. 1,000 nodes with 1,000 files each need 150 MB.
	manifestBytesMax = 256 << 20
	// layoutBytesMax bounds the layout.
	layoutBytesMax = 64 << 10
	// catalogBytesMax bounds the schema and the roles of a backup.
	catalogBytesMax = 256 << 20
	// nameBytesMax bounds names of files in backups, and backupNameMax names of backups.
	nameBytesMax  = 200
	backupNameMax = 100
	// copyBytes is how much of an object is in memory while it is written or verified.
	copyBytes = 256 << 10
	// chunkBytes is read from an object at a time, and chunksMax chunks of one node's files are kept.
	chunkBytes = 1 << 20
	chunksMax  = 24
	// putsAtOnce is how many files of a node are stored at a time, each with copyBytes in memory. An object store
	// answers after the time of several round trips.
	putsAtOnce = 4
	// statsAtOnce is how many objects are looked for at a time, before a backup becomes valid.
	statsAtOnce = 16
	// segmentBytesMax bounds the data of a segment of a log, and positionBytesMax positions in logs.
	segmentBytesMax  = 64 << 20
	positionBytesMax = 64
	// verifyAtOnce is how many objects are read at a time.
	verifyAtOnce = 4
)

// Grace is how long a deleted backup, and objects that no backup needs, are kept.
const Grace = 24 * time.Hour

// abandonedAfter is how long an attempt that was not completed keeps objects.
const abandonedAfter = 7 * 24 * time.Hour

// sweepMax bounds a sweep. A mark that is twice as old is left by a process that has ended, and no longer delays
// backups.
const sweepMax = 30 * time.Minute
