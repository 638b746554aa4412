package logarchive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/logcheck"
)

// keepBytesDefault is the size of the kept logs from which the oldest are deleted: some hours of usual writes.
const keepBytesDefault = 4 << 30

// Options configure the archiving of an engine's log.
type Options struct {
	// Stamp returns unique, increasing hybrid times in microseconds since 1970.
	Stamp func() int64
	// Observe is called, if it is not nil, before anything is stamped, with the greatest stamp of earlier processes:
	// the clock of the node must then return greater ones. An error is ignored: stamps rise in any case.
	Observe func(stamp int64) error
	// KeepBytes bounds the logs that are kept for the reader only. The oldest are deleted, and leave a Gap. Zero means
	// the default.
	KeepBytes int64
}

// Kept describes the logs that are kept for the reader only.
type Kept struct {
	Files int
	Bytes int64
	// Lost is the number of bytes that this process deleted although they had not been released.
	Lost int64
}

// Keeper keeps the log files of one engine that Pebble would delete, until they are released. They stay in place:
// Pebble reads no log that is older than its MANIFEST requires, and deletes older ones again at the next start.
//
//	Pebble removes a log ─▶ FS ─ released, or before the start of the archive ──▶ removed
//	                         └── kept ─▶ Release, DropAll, or more than KeepBytes ──▶ removed
//
// It is safe for concurrent use.
type Keeper struct {
	opts  Options
	disk  vfs.FS // below the file systems of the database, which call the keeper
	dir   string
	log   *slog.Logger
	clock *Clock

	mu struct {
		sync.Mutex
		since    int64            // Position.Since
		start    uint64           // the first log of the archive
		fresh    bool             // the archive began with the directory
		released uint64           // logs with smaller numbers are released
		kept     map[uint64]int64 // sizes in bytes of the logs that Pebble has given up, by number
		bytes    int64            // of kept
		lost     int64
		live     *liveLog // the last log that Pebble created
	}
	// reading is held by Read.
	reading sync.Mutex
}

// markerPrefix begins the name of the file that says since when, and from which log on, a directory is archived:
// "CQLD_LOG_ARCHIVE-0005f3c2a1b0c9d8-12". The file is empty. markerFresh ends the name if the archive has everything
// that was ever written to the directory. Earlier builds of cqld ignore it.
const (
	markerPrefix = "CQLD_LOG_ARCHIVE-"
	markerFresh  = "-new"
)

// New returns the keeper of the logs in a directory of disk. It must be called before Pebble opens the directory.
func New(o Options, disk vfs.FS, dir string, log *slog.Logger) (*Keeper, error) {
	if o.KeepBytes <= 0 {
		o.KeepBytes = keepBytesDefault
	}
	k := &Keeper{opts: o, disk: disk, dir: dir, log: log}
	k.mu.kept = map[uint64]int64{}
	names, err := disk.List(dir)
	if err != nil {
		return nil, err
	}
	continues, err := continues(disk, dir, names)
	if err != nil {
		return nil, err
	}
	// Pebble writes its first MANIFEST before it can be written to.
	k.mu.fresh = !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "MANIFEST-") })
	for _, name := range names {
		if !strings.HasPrefix(name, markerPrefix) {
			continue
		}
		k.mu.fresh = continues && strings.HasSuffix(name, markerFresh)
		if !continues {
			err = errors.Join(err, disk.Remove(disk.PathJoin(dir, name)), syncDir(disk, dir))
		} else if k.mu.start != 0 {
			err = fmt.Errorf("logarchive: %s has several files %s*; delete them to begin a new archive", dir,
				markerPrefix)
		} else if _, err = fmt.Sscanf(name, markerPrefix+"%016x-%d", &k.mu.since, &k.mu.start); err != nil {
			err = fmt.Errorf("logarchive: %s is not a name of a log archive: %w", name, err)
		}
		if err != nil {
			return nil, err
		}
	}
	last, err := k.lastStamp(names)
	if err != nil {
		return nil, err
	}
	if o.Observe != nil && last > 0 {
		_ = o.Observe(last) // see Options
	}
	k.clock = NewClock(o.Stamp, last)
	return k, nil
}

// lastStamp returns the greatest stamp of the archive that continues, or 0.
func (k *Keeper) lastStamp(names []string) (last int64, err error) {
	var logs []uint64
	for _, name := range names {
		if number, ok := LogNumber(name); ok && k.mu.start != 0 && number >= k.mu.start {
			logs = append(logs, number)
		}
	}
	slices.Sort(logs)
	// Stamps increase only roughly along the logs: concurrent batches may be in two logs in the opposite order of
	// their stamps.
	found := 0
	for _, number := range slices.Backward(logs) {
		stamp, err := k.lastOf(number)
		if err != nil {
			return 0, err
		}
		if last = max(last, stamp); stamp > 0 {
			if found++; found == 2 {
				break
			}
		}
	}
	return last, nil
}

// lastOf returns the greatest stamp in a log, or 0. It ignores corruption, which Pebble detects.
func (k *Keeper) lastOf(number uint64) (last int64, err error) {
	f, err := k.disk.Open(k.path(number), vfs.SequentialReadsOption)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	for records := logcheck.NewRecords(f, number, 0, info.Size()); ; {
		batch, _, err := records.Next()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return 0, err
		}
		if c, err := parse(batch); err == nil {
			last = max(last, c.stamp)
		}
	}
}

// continues reports whether the last process that opened a directory with these files archived its log. Pebble writes
// the name of its cleaner to the file of its options.
func continues(disk vfs.FS, dir string, names []string) (bool, error) {
	var last string
	var newest uint64
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "OPTIONS-")
		if number, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && number >= newest {
			last, newest = name, number
		}
	}
	if last == "" {
		return false, nil
	}
	f, err := disk.Open(disk.PathJoin(dir, last))
	if err != nil {
		return false, err
	}
	b, err := io.ReadAll(f)
	return strings.Contains(string(b), "\n  cleaner="+cleanerName+"\n"), errors.Join(err, f.Close())
}

// Clock returns the clock that stamps the engine's batches.
func (k *Keeper) Clock() *Clock { return k.clock }

// Opened begins the archive, in a directory that has none, with the log that Pebble has created. It is called when
// Pebble has opened the directory, before anything is written.
func (k *Keeper) Opened() error {
	k.mu.Lock()
	begun, live, fresh := k.mu.start > 0, k.mu.live, k.mu.fresh
	k.mu.Unlock()
	if begun {
		return nil
	}
	// Older logs, which Pebble has replayed and flushed, may contain batches without stamps.
	since, start := k.clock.take(), live.number
	name := fmt.Sprintf("%s%016x-%d", markerPrefix, since, start)
	if fresh {
		name += markerFresh
	}
	f, err := k.disk.Create(k.disk.PathJoin(k.dir, name), vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), syncDir(k.disk, k.dir))
	}
	if err != nil {
		return fmt.Errorf("logarchive: begin the archive: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.since, k.mu.start = since, start
	return nil
}

// Beginning returns where the archive begins, if it contains everything that was ever written to the directory.
func (k *Keeper) Beginning() (p Position, ok bool) {
	if k == nil {
		return p, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return Position{Since: k.mu.since, Log: k.mu.start}, k.mu.fresh
}

// syncDir makes changes of the names in a directory durable.
func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// keep decides whether a log that Pebble no longer needs stays. If the kept logs exceed their bound, it removes the
// oldest.
func (k *Keeper) keep(number uint64) bool {
	if !k.wants(number) {
		return false
	}
	size, err := k.syncOld(number)
	if err != nil {
		k.log.Warn("cannot keep a log for the archive", "log", number, "err", err)
		return false
	}
	k.mu.Lock()
	if _, again := k.mu.kept[number]; !again {
		k.mu.kept[number] = size
		k.mu.bytes += size
	}
	// The log may have been released meanwhile, so it is removed with the released ones.
	excess := append(k.takeLocked(-1, k.mu.released), k.takeLocked(k.opts.KeepBytes, ^uint64(0))...)
	k.mu.Unlock()
	k.remove(excess, "the kept logs exceed their bound")
	return !slices.Contains(excess, number)
}

// wants reports whether a log belongs to the archive and is not released.
func (k *Keeper) wants(number uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.start > 0 && number >= max(k.mu.start, k.mu.released)
}

// syncOld syncs a log and returns its size. Pebble syncs its logs, except one that an earlier process left: a second
// crash must not shorten it after it was replayed.
func (k *Keeper) syncOld(number uint64) (size int64, err error) {
	f, err := k.disk.Open(k.path(number))
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err == nil {
		size, err = info.Size(), f.Sync()
	}
	return size, errors.Join(err, f.Close())
}

// takeLocked removes the oldest logs with numbers below a bound from kept, until at most the given number of bytes
// remains. The caller deletes the returned files.
func (k *Keeper) takeLocked(bytes int64, below uint64) (taken []uint64) {
	// Logs are removed in order, because no reader would notice a gap in the middle.
	for _, number := range slices.Sorted(maps.Keys(k.mu.kept)) {
		if k.mu.bytes <= bytes || number >= below {
			break
		}
		size := k.mu.kept[number]
		delete(k.mu.kept, number)
		k.mu.bytes -= size
		if number >= k.mu.released {
			k.mu.lost += size
		}
		taken = append(taken, number)
	}
	return taken
}

// remove deletes logs that takeLocked returned. reason is logged for logs that had not been released.
func (k *Keeper) remove(logs []uint64, reason string) {
	for _, number := range logs {
		err := k.disk.Remove(k.path(number))
		// A log that stays is offered for deletion again at the next start.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.log.Warn("cannot remove a log", "log", number, "err", err)
		} else if reason != "" {
			k.log.Warn("a log was removed before it was archived", "log", number, "reason", reason)
		}
	}
}

// Release deletes the kept logs that lie before a position, because they are archived, and lets Pebble delete such
// logs in future. A nil Keeper keeps none.
func (k *Keeper) Release(upTo Position) {
	if k == nil {
		return
	}
	k.mu.Lock()
	if upTo.Since != k.mu.since { // a position of another archive says nothing about this one
		k.mu.Unlock()
		return
	}
	k.mu.released = max(k.mu.released, upTo.Log)
	logs := k.takeLocked(-1, k.mu.released)
	k.mu.Unlock()
	k.remove(logs, "")
}

// DropAll removes all kept logs, because the disk is full, and returns their size in bytes. A nil Keeper has none.
func (k *Keeper) DropAll() int64 {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	before := k.mu.bytes
	logs := k.takeLocked(-1, ^uint64(0))
	k.mu.Unlock()
	k.remove(logs, "the disk is full")
	return before
}

// Kept returns the size of the kept logs; zero for a nil Keeper.
func (k *Keeper) Kept() Kept {
	if k == nil {
		return Kept{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return Kept{Files: len(k.mu.kept), Bytes: k.mu.bytes, Lost: k.mu.lost}
}

// path returns the path of a log, as Pebble names it.
func (k *Keeper) path(number uint64) string {
	return k.disk.PathJoin(k.dir, fmt.Sprintf("%06d.log", number))
}

// LogNumber returns the number in the name of a log file.
func LogNumber(base string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(base, ".log")
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}
