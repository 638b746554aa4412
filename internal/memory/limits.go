package memory

import "time"

// The numbers of this package that no operator sets.
const (
	// smallMax is the size up to which an account is small: requests for single rows, and their replies. Only small
	// accounts use the last 1/smallShare of a pool, so that large ones never keep them waiting.
	smallMax   = 64 << 10
	smallShare = 8

	// waitMaxDefault is less than the time after which drivers give up (12 s), and less than the timeout of
	// Cassandra's reads (5 s).
	waitMaxDefault = 4 * time.Second

	// Accounts that wait: each keeps a goroutine of a server, which has four times as many. More waiting accounts than
	// this are refused at once.
	waitersDefault = 256

	// lookEvery is the interval at which a waiting account checks for clients that do not read.
	lookEvery = 250 * time.Millisecond

	// turnFree is the size up to which a computation needs no turn: about 2 ms of CPU time. In a turn, up to 10 ms,
	// turnBytes are processed before others may follow. A row has workEach bytes besides its own.
	turnFree  = 64 << 10
	turnBytes = 1 << 20
	workEach  = 32

	// turnsEach is the number of computations at a time for each processor: more than one, because they read from the
	// disk.
	turnsEach = 2

	// calmPercent is the part of the bound up to which readers read further requests.
	calmPercent = 80
)
