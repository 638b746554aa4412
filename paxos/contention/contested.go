package contention

import (
	"sync"
	"time"
)

// Contested contains the partitions with recent contention, each in the slot of its key's hash. The zero value is
// empty.
type Contested struct {
	mu     sync.Mutex
	places [slots]struct {
		partition string
		until     time.Duration
	}
}

// Note records that other coordinators change the partition, too.
func (k *Contested) Note(partition string, now time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.places[Hash(partition)%slots]
	// A partition that used the slot before is displaced, and then counts as uncontended.
	s.partition, s.until = partition, now+contestedFor
}

// Has reports whether other coordinators change the partition.
func (k *Contested) Has(partition string, now time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.places[Hash(partition)%slots]
	return s.partition == partition && now < s.until
}
