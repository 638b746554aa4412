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
	// putsAtOnce is how many files of a node are stored at a time, if their memory suffices. An object store answers
	// after the time of several round trips.
	putsAtOnce = 4
	// copyMemory is the memory of a file that is stored or verified: the buffers of its hash, of its encryption, of
	// its copy and of the connection.
	copyMemory = 1 << 20
	// statsAtOnce is how many objects are looked for at a time, before a backup becomes valid.
	statsAtOnce = 16
	// segmentBytesMax bounds the data of a segment of a log, and positionBytesMax positions in logs.
	segmentBytesMax  = 64 << 20
	positionBytesMax = 64
	// verifyAtOnce is how many objects are read at a time, if their memory suffices.
	verifyAtOnce = 4
	// segmentBytes is how much of the log of a node is archived at a time, if the memory suffices, and segmentBytesMin
	// if it does not. segmentMemory is the memory of a segment in tenths of its size: 13 as it is read, because it
	// grows, and 12 as it is compressed.
	segmentBytes    = 4 << 20
	segmentBytesMin = 1 << 20
	segmentMemory   = 25
	// replayBytes is how much of an archived log is collected before it is flushed, if the memory suffices, and
	// replayBytesMin if it does not. replayMemory is the memory in units of it: a memtable has twice the space, and the
	// next one is filled while it is flushed.
	replayBytes    = 16 << 20
	replayBytesMin = 4 << 20
	replayMemory   = 4
)

// RestoreMemory is the memory of the rows that a restoration reads, edits and writes, and of its cache of blocks,
// besides the parts of files.
const RestoreMemory = 5 << 20

// Grace is how long a deleted backup, and objects that no backup needs, are kept.
const Grace = 24 * time.Hour

// abandonedAfter is how long an attempt that was not completed keeps objects.
const abandonedAfter = 7 * 24 * time.Hour

// sweepMax bounds a sweep. A mark that is twice as old is left by a process that has ended, and no longer delays
// backups.
const sweepMax = 30 * time.Minute
