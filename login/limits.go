package login

import (
	"cmp"
	"runtime"
	"time"
)

// Limits bounds the work and memory that clients can cause before they are authenticated. A zero field means the
// default in its comment. Costs are exponents: bcrypt computes 2^cost rounds.
type Limits struct {
	// HashersMax bounds the verifications of passwords that run at a time.
	HashersMax int // half of the CPUs, at least one
	// QueueMax bounds the verifications that wait for another one to end.
	QueueMax int // queueMax
	// QueuePerAddressMax bounds the waiting verifications of one client address.
	QueuePerAddressMax int // a quarter of QueueMax, at least one
	// Cost is the bcrypt cost to which each failed verification is extended. It should equal the cost of new hashes.
	Cost int // cost
	// CostMax is the largest cost of a hash that is verified. A role with a larger one cannot log in.
	CostMax int // costMax
	// RememberedMax bounds the roles whose correct credentials are remembered.
	RememberedMax int // rememberedMax
	// RememberFor is how long correct credentials are remembered (credentials_validity).
	RememberFor time.Duration // rememberFor
	// RejectedMax bounds the wrong credentials that are remembered.
	RejectedMax int // rejectedMax
	// RejectFor is how long wrong credentials are remembered.
	RejectFor time.Duration // rejectFor
	// TrackedMax bounds each of the tables that record failures (by address, by role, and by pair) and work (by address
	// and by role).
	TrackedMax int // trackedMax
}

const (
	// With 80 ms for each verification, 32 waiting ones take 2.6 s on one CPU, which is half of the time that a
	// handshake may take.
	queueMax = 32

	// Cassandra's default cost. 2^14 rounds take over a second.
	cost    = 10
	costMax = 14

	// Correct credentials take 200 bytes and the role's name, wrong ones 150 bytes: 3.5 MB together.
	rememberedMax = 16384
	rememberFor   = 10 * time.Minute
	rejectedMax   = 4096
	rejectFor     = time.Minute

	// workHalfLife is the half-life of the recorded work of a role or an address.
	workHalfLife = 10 * time.Second

	// passwordBytesMax is the maximum length of a password. bcrypt ignores all bytes after it.
	passwordBytesMax = 72

	// Each takes 150 bytes: five tables of 8192 entries are 6.1 MB.
	trackedMax = 8192

	// The names of roles in events and logs are cut at this length.
	shownRoleMax = 128
)

// QueuePerAddressMax depends on QueueMax, which is set before it.
func (l Limits) withDefaults() Limits {
	l.HashersMax = cmp.Or(l.HashersMax, max(runtime.NumCPU()/2, 1))
	l.QueueMax = cmp.Or(l.QueueMax, queueMax)
	l.QueuePerAddressMax = cmp.Or(l.QueuePerAddressMax, max(l.QueueMax/4, 1))
	l.Cost = cmp.Or(l.Cost, cost)
	l.CostMax = cmp.Or(l.CostMax, costMax)
	l.RememberedMax = cmp.Or(l.RememberedMax, rememberedMax)
	l.RememberFor = cmp.Or(l.RememberFor, rememberFor)
	l.RejectedMax = cmp.Or(l.RejectedMax, rejectedMax)
	l.RejectFor = cmp.Or(l.RejectFor, rejectFor)
	l.TrackedMax = cmp.Or(l.TrackedMax, trackedMax)
	return l
}

// policy determines how long guesses are rejected after failures: not at all for the first free ones, then for first,
// doubling with each further failure up to most. Each period of calm without a failure halves the count. With free 10
// and first 200 ms, the eleventh failure delays the next guess by 200 ms, the twelfth by 400 ms.
type policy struct {
	free        int
	first, most time.Duration
	calm        time.Duration
}

// addressPolicy and rolePolicy allow 10 typing errors in a minute, and then about six guesses in a minute of one
// address, or four of one role.
func addressPolicy() policy {
	return policy{free: 10, first: 200 * time.Millisecond, most: 10 * time.Second, calm: time.Minute}
}

func rolePolicy() policy {
	return policy{free: 10, first: 200 * time.Millisecond, most: 15 * time.Second, calm: time.Minute}
}

// pairPolicy bounds how often one address can compare guesses with the remembered credentials of a role. It is short,
// because it also rejects correct credentials from the same address.
func pairPolicy() policy {
	return policy{free: 10, first: 50 * time.Millisecond, most: 250 * time.Millisecond, calm: time.Minute}
}
