package load

import "time"

// The bounds of this package, and the times of its averages.
const (
	// rangesMax bounds the ranges of a node that are measured separately: 32,768 records of 208 bytes take 6.5 MiB. The
	// ranges beyond it are measured together. A node with 16 tokens per member and a replication factor of 4 has 64
	// ranges, whatever the size of the ring; more than 32,768 need a keyspace that 2,000 members replicate in full.
	rangesMax = 32768
	// keysMax is the number of partition keys in the sketch. A key that causes more than 1/256 of the charge of the
	// node is guaranteed to be in it. keyBytesMax bounds the bytes of each key that are stored for display: 64 KiB in
	// all. A longer key is shown by its token.
	keysMax     = 256
	keyBytesMax = 256
	// sampleEvery is the number of requests of a range for each one that enters the sketch.
	sampleEvery = 32
	// samplesMin is the number of samples, of the last seconds, from which the charge of a key is known: it then has an
	// error of at most ±35 % (one standard deviation). A key needs about 26 requests per second for it.
	samplesMin = 8
	// hotShareMin is the smallest part of the charge of its range from which a key is reported to other nodes. Smaller
	// parts are not worth a range of their own.
	hotShareMin = 1.0 / 16

	// entriesMax bounds the ranges in one report, and entriesTotal the ranges in the reports of all nodes: 131,072
	// entries of 80 bytes take 10 MiB. In a ring of 1,000 nodes, a report has at most 131 ranges.
	entriesMax   = 1024
	entriesTotal = 128 << 10
	// reportBytesMax bounds a received report: the entries above, each with all its fields in their longest form.
	reportBytesMax = 64 + entriesMax*32

	// averageEvery is the shortest interval between two updates of the averages.
	averageEvery = time.Second
	// reportEvery is the shortest interval between two reports, and reportEveryMember is added for each member: with
	// 1,000 members, a node sends a report of about 600 bytes to each of them every 22 s, which is 27 KB/s.
	reportEvery       = 2 * time.Second
	reportEveryMember = 20 * time.Millisecond
	// reportsMissed is the number of intervals after which the last report of a node no longer counts.
	reportsMissed = 5
)

// The times of the averages. An average follows a change of the load by 63 % in this time, and by 95 % in three times
// this time.
const (
	Fast = 10 * time.Second // shows a hot partition
	Slow = 2 * time.Minute  // shows a load that lasts
)
