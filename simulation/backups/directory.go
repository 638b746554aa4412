package backups

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"cqld/backup"
	"cqld/simulation/kernel"
)

// refusedOnce is the chance, in a thousand operations, that one fails. None is repeated.
const refusedOnce = 2

// storeDir is the directory of the store on the machine.
const storeDir = "/store"

// machine is a machine whose directory all processes have mounted. Its power is cut: what was synced survives, and the
// rest in part. Operations that began before a cut fail when they continue, as with a mount that has become stale.
//
// A cut is an event, so it strikes while operations wait, and never between two that do not: between the rename of a
// file and the sync of its directory, for example. Package backup tests a crash before each single operation. What the
// simulation adds is that nodes continue after the cut with what they know from before it: a leader that has seen the
// shares of all nodes completes a backup, and a sweep removes what it has listed.
type machine struct {
	disk *vfs.MemFS
	// cuts counts the cuts. It is atomic because goroutines of Pebble read files.
	cuts atomic.Int64
	// modified has the times at which files were written, by the clock of the store.
	modified map[string]time.Time
	unsynced bool // syncs have no effect
}

// newMachine returns a machine with an empty directory.
func newMachine() (*machine, error) {
	m := &machine{disk: vfs.NewCrashableMem(), modified: map[string]time.Time{}}
	err := m.disk.MkdirAll(storeDir, 0o700)
	if err != nil {
		return nil, err
	}
	root, err := m.disk.OpenDir("/")
	if err != nil {
		return nil, err
	}
	return m, errors.Join(root.Sync(), root.Close())
}

// cut cuts the power, and starts the machine again. Without a sync, a half or all of the data may survive nevertheless,
// or none. The former disk stays as it was, for operations in progress, which do not reach it (mount.begin).
func (m *machine) cut(r *kernel.Stream) {
	percent, seed := 50*r.Intn(3), r.Uint64()
	// Before the copy: files that are read by goroutines of Pebble fail from now on.
	m.cuts.Add(1)
	m.disk = m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1))})
}

// mount is the file system of the machine as a process sees it, from one cut to the next. A store is opened for each
// step of a backup or restoration, so the next step sees the machine after the cut.
type mount struct {
	vfs.FS
	store   *store
	process *Process
	cuts    int64 // when it was mounted
}

// mounted returns the store of a process in the directory.
func (s *store) mounted(p *Process, location string) *backup.Store {
	m := &mount{store: s, process: p, cuts: s.machine.cuts.Load()}
	m.FS = errorfs.Wrap(s.machine.disk, errorfs.InjectorFunc(m.begin))
	return backup.OpenDirectory(m, storeDir, location)
}

// begin decides about an operation before it is executed, and waits for the machine.
func (m *mount) begin(op errorfs.Op) error {
	if err := m.wait(op); err != nil {
		return err
	}
	// After the wait, in which the power may have been cut.
	if m.store.machine.cuts.Load() != m.cuts {
		return errStore
	}
	return nil
}

// wait waits and draws for operations on notes, manifests and lists, as for requests of a bucket (store.begin). Other
// operations are as many as objects and their directories, whose number depends on hashes.
func (m *mount) wait(op errorfs.Op) error {
	s := m.store
	switch op.Kind {
	case errorfs.OpCreate:
		// The first file waits for the end of the outage, and nothing is drawn, so the number of files has no effect.
		if o := s.outage; o.operation == "write" && !s.healed() && s.kernel.Now() < o.until {
			s.count("requests for objects in an outage")
			return m.process.sleep(context.Background(), o.until-s.kernel.Now())
		}
	case errorfs.OpStat, errorfs.OpOpen, errorfs.OpList, errorfs.OpRemove:
		if strings.HasPrefix(op.Path, storeDir+"/objects") || strings.HasPrefix(op.Path, storeDir+"/partial") {
			return nil
		}
		// Both are drawn before the wait, as for a bucket.
		delay, n := s.delay(), s.random.Intn(1000)
		if err := m.process.sleep(context.Background(), delay); err != nil {
			return err
		}
		if n < refusedOnce && !s.healed() {
			s.count("faults of the store of backups")
			return errStore
		}
	}
	return nil
}

// now returns the time of the store's clock.
func (s *store) now() time.Time { return time.Unix(storeEpoch, 0).Add(s.kernel.Now()) }

// Create implements vfs.FS. A file has the time of its creation, which is when its content was written: files are
// written as a whole.
func (m *mount) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.Create(name, category)
	if err == nil {
		m.store.machine.modified[name] = m.store.now()
	}
	return m.unsynced(f), err
}

// OpenDir implements vfs.FS. Directories are opened to sync the names in them.
func (m *mount) OpenDir(name string) (vfs.File, error) {
	f, err := m.FS.OpenDir(name)
	return m.unsynced(f), err
}

// Rename implements vfs.FS. The time of the file follows it to its name.
func (m *mount) Rename(from, to string) error {
	err := m.FS.Rename(from, to)
	if err == nil {
		m.store.machine.modified[to] = m.store.machine.modified[from]
		delete(m.store.machine.modified, from)
	}
	return err
}

// Stat implements vfs.FS. The disk has the time of day, which sweeps do not compare with the clocks of nodes.
func (m *mount) Stat(name string) (vfs.FileInfo, error) {
	info, err := m.FS.Stat(name)
	if err != nil {
		return nil, err
	}
	return written{info, m.store.machine.modified[name]}, nil
}

// written are the properties of a file with the time of the store's clock.
type written struct {
	vfs.FileInfo
	at time.Time
}

// ModTime implements fs.FileInfo.
func (w written) ModTime() time.Time { return w.at }

// unsynced returns a file whose syncs have no effect, if the machine is such.
func (m *mount) unsynced(f vfs.File) vfs.File {
	if m.store.machine.unsynced && f != nil {
		return unsyncedFile{f}
	}
	return f
}

// unsyncedFile is a file whose syncs have no effect.
type unsyncedFile struct{ vfs.File }

// Sync implements vfs.File.
func (unsyncedFile) Sync() error { return nil }
