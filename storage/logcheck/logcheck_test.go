package logcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

const testNumber = 258

// written is a log that a test has written.
type written struct {
	bytes  []byte
	starts []int // of its chunks
	synced int   // the synced length in the last chunk
}

// appendChunk appends a chunk, after padding if the block has no space for it.
func (w *written) appendChunk(kind byte, number uint32, synced int, payload []byte) {
	f, _ := formatOf(kind)
	if rest := blockSize - len(w.bytes)%blockSize; rest < f.header {
		w.bytes = append(w.bytes, make([]byte, rest)...)
	}
	payload = payload[:min(len(payload), blockSize-len(w.bytes)%blockSize-f.header)]
	c := binary.LittleEndian.AppendUint16(make([]byte, 4), uint16(len(payload)))
	c = append(c, kind)
	if f.log {
		c = binary.LittleEndian.AppendUint32(c, number)
	}
	if f.synced {
		c = binary.LittleEndian.AppendUint64(c, uint64(synced))
		w.synced = synced
	}
	c = append(c, payload...)
	binary.LittleEndian.PutUint32(c, checksum(c[6:]))
	w.starts = append(w.starts, len(w.bytes))
	w.bytes = append(w.bytes, c...)
}

// randomLog returns a log whose chunks name the lengths at which it was synced.
func randomLog(rng *rand.Rand) *written {
	w, synced := new(written), 0
	for range 2 + rng.IntN(60) {
		payload := make([]byte, rng.IntN(1<<rng.IntN(13)))
		for i := range payload {
			payload[i] = byte(rng.Uint32())
		}
		w.appendChunk(byte(9+rng.IntN(4)), testNumber, synced, payload)
		if rng.IntN(3) == 0 {
			synced = len(w.bytes)
		}
	}
	return w
}

func logError(b []byte) error { return Log(bytes.NewReader(b), testNumber) }

// TestChangedBitsAreFound changes one bit before the end of what was synced, or of a chunk that another one follows.
func TestChangedBitsAreFound(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := randomLog(rng)
		if err := logError(w.bytes); err != nil {
			t.Fatalf("seed %d: the log as it is: %v", seed, err)
		}
		last := w.starts[len(w.starts)-1]
		if last == 0 {
			continue
		}
		at := rng.IntN(last)
		w.bytes[at] ^= 1 << rng.IntN(8)
		err := logError(w.bytes)
		var corrupt *Corrupt
		if !errors.As(err, &corrupt) {
			if padding(w, at) {
				continue
			}
			t.Fatalf("seed %d: a bit of byte %d of %d, synced to %d: %v", seed, at, len(w.bytes), w.synced, err)
		}
		if next := nextStart(w, int(corrupt.Offset)); int(corrupt.Offset) > at || at >= next {
			t.Fatalf("seed %d: byte %d was changed: %v", seed, at, err)
		}
	}
}

// nextStart returns the position of the chunk after the one at a position.
func nextStart(w *written, at int) int {
	for _, start := range w.starts {
		if start > at {
			return start
		}
	}
	return len(w.bytes)
}

// padding reports whether a byte is in the padding of a block.
func padding(w *written, at int) bool {
	for _, start := range w.starts {
		c, ok := chunkAt(w.bytes[start:], func(chunk) bool { return true })
		if at >= start && (!ok || at < start+len(c.bytes)) {
			return !ok
		}
	}
	return true
}

// TestInterruptedWritesAreNoCorruption replaces any sectors after the synced end by sectors of an older log, or by
// zeros, as a power failure does.
func TestInterruptedWritesAreNoCorruption(t *testing.T) {
	const sector = 512
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w, old := randomLog(rng), randomLog(rng)
		before := make([]byte, len(w.bytes))
		if rng.IntN(2) == 0 {
			for _, start := range old.starts { // chunks of another log
				c, _ := chunkAt(old.bytes[start:], func(chunk) bool { return true })
				binary.LittleEndian.PutUint32(c.bytes[7:], testNumber-1)
				binary.LittleEndian.PutUint32(c.bytes, checksum(c.bytes[6:]))
			}
			copy(before, old.bytes)
		}
		torn := bytes.Clone(w.bytes)
		for from := 0; from < len(torn); from += sector {
			to := min(from+sector, len(torn))
			if rng.IntN(2) == 0 && to > w.synced {
				copy(torn[max(from, w.synced):to], before[max(from, w.synced):to])
			}
		}
		if err := logError(torn[:w.synced+rng.IntN(len(torn)-w.synced+1)]); err != nil {
			t.Fatalf("seed %d: %d bytes, synced to %d: %v", seed, len(torn), w.synced, err)
		}
	}
}

// TestManifestsEndAtTheirLastRecord changes a bit of a MANIFEST, in its last record and before it.
func TestManifestsEndAtTheirLastRecord(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := new(written)
		for range 2 + rng.IntN(20) {
			w.appendChunk(1, 0, 0, make([]byte, 1+rng.IntN(3000)))
		}
		at := rng.IntN(len(w.bytes))
		w.bytes[at] ^= 1 << rng.IntN(8)
		err := Manifest(bytes.NewReader(w.bytes))
		last := at >= w.starts[len(w.starts)-1]
		if (err == nil) != last && !padding(w, at) {
			t.Fatalf("seed %d: byte %d of %d, last record %t: %v", seed, at, len(w.bytes), last, err)
		}
	}
}

// TestErrorsOfTheReader shows that a file that cannot be read is not taken for a sound one.
func TestErrorsOfTheReader(t *testing.T) {
	w := randomLog(rand.New(rand.NewPCG(1, 1)))
	r := io.MultiReader(bytes.NewReader(w.bytes), iotest.ErrReader(errors.New("input/output error")))
	if err := Log(r, testNumber); err == nil {
		t.Error("no error")
	}
}

// FuzzLog shows that no content makes a check fail otherwise.
func FuzzLog(f *testing.F) {
	w := new(written)
	for _, kind := range []byte{1, 5, 9, 10, 11, 12, 2, 4} {
		w.appendChunk(kind, testNumber, len(w.bytes), []byte("payload"))
	}
	f.Add(w.bytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		var corrupt *Corrupt
		for _, err := range []error{logError(b), Manifest(bytes.NewReader(b))} {
			if err != nil && !errors.As(err, &corrupt) {
				t.Error(err)
			}
		}
	})
}
