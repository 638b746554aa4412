package encryption

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestPebbleSurvivesPowerFailures writes to a database with synced and unsynced batches, cuts the power at random
// points so that any part of the unsynced writes remains, and opens the database again with a new key. Synced batches
// must be there, and nothing of a value may be on the disk in clear.
func TestPebbleSurvivesPowerFailures(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 2))
		below, synced := vfs.NewCrashableMem(), 0
		for life := range byte(5) {
			disk := New(below, testKeys(t, life+2, life+1), random(life))
			if life == 0 {
				disk = New(below, testKeys(t, 2), random(life))
			}
			db := openPebble(t, disk)
			checkPebble(t, db, synced)
			for i, end := synced, synced+300; i < end; i++ {
				o := pebble.NoSync
				if r.IntN(20) == 0 {
					o = pebble.Sync
				}
				if err := db.Set(fmt.Appendf(nil, "%06d", i), secretOf(i), o); err != nil {
					t.Fatal(err)
				}
				if o == pebble.Sync {
					synced = i + 1
				}
			}
			after := below.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			below = after
			// All keys except for the newest are removed after a rotation.
			rotate(t, New(below, testKeys(t, life+2, life+1), random(life)))
		}
		noSecrets(t, below)
	}
}

// secretOf returns a value that occurs nowhere else.
func secretOf(i int) []byte { return []byte(strings.Repeat(fmt.Sprintf("secret%06d", i), 20)) }

// openPebble opens a database with small memtables and no compression, so that values would be visible.
func openPebble(t *testing.T, disk vfs.FS) *pebble.DB {
	t.Helper()
	o := &pebble.Options{FS: disk, MemTableSize: 32 << 10, FormatMajorVersion: pebble.FormatNewest,
		Logger: silent{t}}
	// Pebble repeats a flush that fails, forever.
	o.EventListener = &pebble.EventListener{BackgroundError: func(err error) { t.Error(err) }}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	db, err := pebble.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// silent drops Pebble's messages.
type silent struct{ t *testing.T }

func (silent) Infof(string, ...any)                {}
func (silent) Errorf(string, ...any)               {}
func (s silent) Fatalf(format string, args ...any) { s.t.Fatalf(format, args...) }

// checkPebble reads the values that were synced.
func checkPebble(t *testing.T, db *pebble.DB, synced int) {
	t.Helper()
	for i := range synced {
		v, closer, err := db.Get(fmt.Appendf(nil, "%06d", i))
		if err != nil || string(v) != string(secretOf(i)) {
			t.Fatalf("%d: %v", i, err)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// rotate rewrites all files with the newest key.
func rotate(t *testing.T, disk *FS) {
	t.Helper()
	stale, err := disk.Stale("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stale {
		if n, err := disk.Rewrite(t.Context(), s, nil); n != len(s.Paths) || err != nil {
			t.Fatal(n, err)
		}
	}
}

// noSecrets searches every file for the secret bytes.
func noSecrets(t *testing.T, below vfs.FS) {
	t.Helper()
	files := 0
	err := walk(below, []string{"db"}, func(f found) error {
		files++
		if b := read(t, below, f.path); strings.Contains(b, "secret") {
			t.Errorf("%s contains a value in clear", f.path)
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Fatal(files, err)
	}
}

// TestCheckpointIsEncrypted opens a checkpoint, which consists of links and copies, with the key alone.
func TestCheckpointIsEncrypted(t *testing.T) {
	below := vfs.NewMem()
	disk := New(below, testKeys(t, 1), random(1))
	db := openPebble(t, disk)
	for i := range 1000 {
		if err := db.Set(fmt.Appendf(nil, "%06d", i), secretOf(i), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Flush(), db.Checkpoint("checkpoint", pebble.WithFlushedWAL()), db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := below.RemoveAll("db"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := below.Rename("checkpoint", "db"); err != nil {
		t.Fatal(err)
	}
	noSecrets(t, below)
	db = openPebble(t, New(below, testKeys(t, 1), random(2)))
	checkPebble(t, db, 1000)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
