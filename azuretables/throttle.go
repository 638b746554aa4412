package azuretables

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

// throttle keeps each account or partition near a rate of entities per second. It refuses requests for a name that has
// spent one second's worth of tokens until some have accrued. An admitted request may overdraw its bucket, so that a
// batch larger than the rate still succeeds. Memory does not grow with the number of partitions: a new name replaces
// the bucket of its set that has the most tokens. It is a set-associative cache of token buckets. Two names whose
// hashes are equal share a bucket. It is safe for concurrent use.
//
// Invariant: the tokens of a bucket are at most rate.
type throttle struct {
	rate float64              // entities per second
	now  func() time.Duration // monotonic
	seed maphash.Seed         // random, so clients cannot choose names that share buckets
	sets []bucketSet          // a name belongs to the set that its hash selects
}

// bucketSet is locked as a whole; different sets do not contend. With 8192 sets, contention is rare.
type bucketSet struct {
	mu      sync.Mutex
	buckets [bucketWays]bucket
}

// bucket holds the tokens of one name. Negative tokens are a debt. It takes 24 bytes.
type bucket struct {
	key    uint64        // 0 means unused
	tokens float64       // entities that may be processed; at most rate
	at     time.Duration // time at which tokens was computed
}

// newThrottle returns nil, which admits every request, if there is no target. Accounts are few and need one set. Two
// accounts beyond bucketWays at the same time evict each other's buckets. now must be monotonic.
func newThrottle(rate, sets int, now func() time.Duration) *throttle {
	if rate <= 0 {
		return nil
	}
	return &throttle{rate: float64(rate), now: now, seed: maphash.MakeSeed(), sets: make([]bucketSet, sets)}
}

// admit reports whether a request for name may process n entities, and otherwise how long the client should wait. A
// name with any tokens left is admitted, whatever n is. wait is an estimate: other requests may take the tokens.
func (t *throttle) admit(name string, n int) (wait time.Duration, ok bool) {
	if t == nil {
		return 0, true
	}
	set, key := t.find(name)
	set.mu.Lock()
	defer set.mu.Unlock()
	b := set.bucket(key, t.rate, t.now())
	if b.tokens <= 0 {
		// The time until one token exists.
		return time.Duration((1 - b.tokens) / t.rate * float64(time.Second)), false
	}
	b.tokens -= float64(n)
	return 0, true
}

// charge counts n more entities of an admitted request. It may leave a debt, which delays the next requests. It follows
// an admit.
func (t *throttle) charge(name string, n int) {
	if n > 0 {
		t.take(name, n)
	}
}

// release undoes admit. It is used when a second throttle refuses the request.
func (t *throttle) release(name string, n int) { t.take(name, -n) }

// take removes tokens without a check; a negative n returns them.
func (t *throttle) take(name string, n int) {
	if t == nil {
		return
	}
	set, key := t.find(name)
	set.mu.Lock()
	defer set.mu.Unlock()
	set.bucket(key, t.rate, t.now()).tokens -= float64(n)
}

// find returns the set of a name, and its key in the set. The lowest bit is always set, so that no key is 0. It does
// not lock the set.
func (t *throttle) find(name string) (*bucketSet, uint64) {
	key := maphash.String(t.seed, name) | 1
	// The bits above it select the set.
	return &t.sets[key>>1%uint64(len(t.sets))], key
}

// bucket returns the bucket of key with its tokens at now. The caller holds mu. It replaces another bucket if the name
// has none.
func (s *bucketSet) bucket(key uint64, rate float64, now time.Duration) *bucket {
	// One pass finds the bucket, or else the one to replace: an unused one, or the fullest.
	var found *bucket
	var fullest float64
	for i := range s.buckets {
		b := &s.buckets[i]
		if b.key == key {
			found = b
			break
		}
		// An unused bucket counts as full, because a new name has a full bucket as well.
		tokens := rate
		if b.key != 0 {
			tokens = b.grown(rate, now)
		}
		// The fullest bucket loses least: its name begins with a full one again.
		if found == nil || tokens > fullest {
			found, fullest = b, tokens
		}
	}
	if found.key != key {
		*found = bucket{key: key, tokens: rate, at: now}
	}
	// Tokens accrue on use; no timer refills buckets.
	found.tokens, found.at = found.grown(rate, now), now
	return found
}

// grown returns the tokens at now.
func (b *bucket) grown(rate float64, now time.Duration) float64 {
	return min(rate, b.tokens+rate*(now-b.at).Seconds())
}

// rates are the throttles of accounts and of partitions. Each may be nil.
type rates struct{ accounts, partitions *throttle }

// admit asks the throttles for n entities of a partition; if table is empty, it asks only the account's throttle. Its
// error is busy. Both throttles must admit the request. The account's comes first because it needs no name of a
// partition. n is at least 1.
func (r *rates) admit(account, table, partitionKey string, n int) error {
	wait, ok := r.accounts.admit(account, n)
	if ok && table != "" && r.partitions != nil {
		if wait, ok = r.partitions.admit(partitionName(account, table, partitionKey), n); !ok {
			r.accounts.release(account, n) // a refused request does not count against the account
		}
	}
	if ok {
		return nil
	}
	// Rounded up: a client that returns earlier would be refused again.
	return &busy{seconds: int((wait + time.Second - 1) / time.Second)}
}

// charge counts n more entities that a response contains. charge applies to the throttles that admit has asked. Its n
// may be zero or negative, which charges nothing.
func (r *rates) charge(account, table, partitionKey string, n int) {
	r.accounts.charge(account, n)
	if table != "" && r.partitions != nil {
		r.partitions.charge(partitionName(account, table, partitionKey), n)
	}
}

// partitionName returns a name for a partition that is unique among all accounts. Names of accounts and tables contain
// no slash, so it separates them. It allocates, unlike the account's name.
func partitionName(account, table, partitionKey string) string {
	return account + "/" + strings.ToLower(table) + "/" + partitionKey
}
