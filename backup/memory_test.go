package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const mib = 1 << 20

// TestBuffersFitIntoTheMemory adds up what may be used at the same time. A node of 400 MiB has 16 MiB for backups, and
// large ones have 192 MiB.
func TestBuffersFitIntoTheMemory(t *testing.T) {
	for bytes := int64(16 * mib); bytes <= 192*mib; bytes += mib / 2 {
		m := NewMemory(bytes)
		copies := int64(cap(m.copies)) * copyMemory
		size, archive := m.Segment()
		// The part that is read is in memory twice.
		restore := RestoreMemory + (int64(m.chunks())+2)*chunkBytes
		if copies > bytes/4 || archive > bytes/4 || restore > bytes/2 || size < segmentBytesMin {
			t.Errorf("%d bytes: %d for copies, %d for the archive, %d for a restoration", bytes, copies, archive,
				restore)
		}
		flush, needs := m.Replay()
		if flush < replayBytesMin || needs > bytes/4 && flush > replayBytesMin {
			t.Errorf("%d bytes: %d for %d bytes of logs", bytes, needs, flush)
		}
	}
	large := NewMemory(192 * mib)
	size, archived := large.Segment()
	_, replay := large.Replay()
	if used := RestoreMemory + int64(chunksMax+2)*chunkBytes + replay + archived; used > 96*mib {
		t.Errorf("a restoration of a moment uses %d bytes", used)
	}
	if size != segmentBytes || large.chunks() != chunksMax || cap(large.copies) < putsAtOnce+verifyAtOnce {
		t.Errorf("with the largest part: segments of %d bytes, %d chunks, %d copies", size, large.chunks(),
			cap(large.copies))
	}
}

// TestCopiesWaitForMemory stores and verifies files in a node that has memory for two at a time.
func TestCopiesWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storeWith(t, NewMemory(8*mib))
		if err := s.Initialize(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		var running, most atomic.Int64
		objects := make([]Object, 10)
		put := func(ctx context.Context, i int) (err error) {
			objects[i], _, err = s.Put(ctx, func() (io.ReadCloser, error) {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				if used := s.Memory().Used(); used > 2*mib {
					t.Errorf("%d bytes are used", used)
				}
				time.Sleep(time.Second)
				return io.NopCloser(bytes.NewReader([]byte{byte(i)})), nil
			}, unpaced)
			return err
		}
		if err := s.PutAll(t.Context(), len(objects), put); err != nil {
			t.Fatal(err)
		}
		if most.Load() != 2 {
			t.Errorf("%d files were stored at a time", most.Load())
		}
		v, err := s.Verify(t.Context(), objects, func(int) error {
			if used := s.Memory().Used(); used > 2*mib {
				t.Errorf("%d bytes are used", used)
			}
			time.Sleep(time.Second)
			return nil
		})
		if err != nil || v.Objects != len(objects) || len(v.Problems) > 0 {
			t.Errorf("%+v, %v", v, err)
		}
		// A copy that waits ends with its context.
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range 2 {
			end, err := s.Memory().copy(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer end()
		}
		if _, _, err := s.Put(ctx, nil, unpaced); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// storeWith returns an empty store in a directory.
func storeWith(t *testing.T, m *Memory) *Store {
	t.Helper()
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/mnt", 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Places{Disk: disk, Memory: m}.Open("file:///mnt")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMemoryIsReturned makes, reads and verifies a backup, and archives a log.
func TestMemoryIsReturned(t *testing.T) {
	s := storeWith(t, NewMemory(16*mib))
	content := strings.Repeat("0123456789abcdef", 10*chunkBytes/16)
	m := makeBackup(t, s, "b", content)
	f := NewFiles(t.Context(), s, &m.Shares[0], func(int) error {
		if used := s.Memory().Used(); used > 8*mib-RestoreMemory {
			t.Errorf("%d bytes are used", used)
		}
		return nil
	})
	for range 2 {
		file, err := f.Open(FilesDir + "/000000.sst")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, file); err != nil || n != int64(len(content)) {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	if used := s.Memory().Used(); used != chunkBytes {
		t.Errorf("%d bytes are kept", used)
	}
	f.Close()
	if _, err := s.List(t.Context()); err != nil {
		t.Error(err)
	}
	owner := LogOwner{Cluster: "cluster", Host: "host"}
	g, err := s.Logs().PutSegment(t.Context(), owner, Segment{From: LogPosition{Since: 1, Log: 1},
		To: LogPosition{Since: 1, Log: 2}, Stored: time.Now().UnixMicro()}, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Logs().ReadSegment(t.Context(), owner, g, unpaced, func(data []byte) error {
		if used := s.Memory().Used(); used != int64(len(data)) {
			t.Errorf("%d bytes are counted for a segment of %d", used, len(data))
		}
		return nil
	})
	if err != nil || s.Memory().Used() != 0 {
		t.Errorf("%d bytes are used at the end, %v", s.Memory().Used(), err)
	}
}
