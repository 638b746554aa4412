// Package sealed encrypts the disks of simulated machines: each process has another key, and rewrites the files of its
// predecessors with it.
package sealed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/invariant"
	"cqld/storage/encryption"
)

// keys is the number of store keys of a machine.
const keys = 3

// Rand returns random numbers.
type Rand interface{ Uint64() uint64 }

// Disk returns a disk as a process sees it, or the disk itself unless on. All processes read the files of all keys of
// the machine; which one is the newest depends on the number of the process. The encryption is above the faults of the
// disk: its writes can fail and be torn as every other write.
func Disk(disk vfs.FS, on bool, process int, r Rand) vfs.FS {
	if !on {
		return disk
	}
	var text strings.Builder
	for i := range keys {
		fmt.Fprintf(&text, "%02x%s\n", 1+(process+i)%keys, strings.Repeat("5a", 31))
	}
	all, err := encryption.ParseKeys(text.String())
	// The text is a constant but for the order of its lines.
	invariant.Check(err == nil, "sealed: %v", err)
	// Pebble's goroutines create files in an order that does not depend on the seed, so which data key a file has
	// differs between runs, and nothing else.
	return encryption.New(disk, all, &stream{rand: r})
}

// stream makes random bytes for several goroutines.
type stream struct {
	mu   sync.Mutex
	rand Rand
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range p {
		p[i] = byte(s.rand.Uint64())
	}
	return len(p), nil
}

// Rewrite rewrites the files in a directory with the newest key of the process, while the process uses them. A disk
// that is not encrypted stays as it is.
func Rewrite(disk vfs.FS, dir string) error {
	encrypted, ok := disk.(*encryption.FS)
	if !ok {
		return nil
	}
	if err := encrypted.RemoveInterrupted(dir); err != nil {
		return err
	}
	stale, err := encrypted.Stale(dir)
	for _, s := range stale {
		_, rewriteErr := encrypted.Rewrite(context.Background(), s, nil)
		err = errors.Join(err, rewriteErr)
	}
	return err
}
