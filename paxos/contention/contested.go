package contention

import (
	"sync"
	"time"
)

// Contested contains the partitions with recent contention, each in the slot of its key's hash. The zero value is empty.
type Contested struct {
	mu     sync.Mutex
	places [slots]struct {
		line  string
		until time.Duration
	}
}

// Note records that other coordinators change the partition, too.
func (k *Contested) Note(line string, now time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.places[Hash(line)%slots]
	s.line, s.until = line, now+contestedFor
}

// Has reports whether other coordinators change the partition.
func (k *Contested) Has(line string, now time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.places[Hash(line)%slots]
	return s.line == line && now < s.until
}
