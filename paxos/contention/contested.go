package contention

import (
	"sync"
	"time"
)

// Contested are the partitions that others were met at lately, each in the place of its line's hash. The zero value
// has met none.
type Contested struct {
	mu     sync.Mutex
	places [slots]struct {
		line  string
		until time.Duration
	}
}

// Note remembers that others change the partition, too.
func (k *Contested) Note(line string, now time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.places[Hash(line)%slots]
	s.line, s.until = line, now+contestedFor
}

// Has says whether others change the partition.
func (k *Contested) Has(line string, now time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.places[Hash(line)%slots]
	return s.line == line && now < s.until
}
