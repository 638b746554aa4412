package logarchive

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/logcheck"
)

// Read reads the log from a position on, as far as it is on disk, up to about maxBytes. The zero Position means the
// oldest log. Read calls sync, which writes a stamp, and then the log to disk. A log that was deleted is a *Gap, and
// one whose synced bytes have changed a corruption error of Pebble. Concurrent calls wait for each other.
func (k *Keeper) Read(after Position, maxBytes int, sync func(stamp int64) error) (Segment, error) {
	k.reading.Lock()
	defer k.reading.Unlock()
	// The order matters: batches with stamps up to until are in the log before it is synced.
	until := k.clock.until()
	s := Segment{From: after, To: after, Data: make([]byte, headerBytes)}
	// The stamp lets the next process find one that is greater than until, although older logs may be released
	// (lastStamp): it must not stamp a batch with a time that is complete.
	if err := sync(k.clock.take()); err != nil {
		return Segment{}, err
	}
	logs, end, err := k.logs()
	if err != nil {
		return Segment{}, err
	}
	// A new reader begins with the oldest log. A reader that continues must not miss any.
	s.From = logs.oldest()
	if !after.IsZero() {
		s.From = after
	}
	if s.To = s.From; !logs.contain(s.From) || s.From.Log == end.Log && s.From.Offset > end.Offset {
		return Segment{}, &Gap{After: after, Oldest: logs.oldest()}
	}
	reached, err := k.read(&s, logs, end, maxBytes)
	// The log has lost bytes that an earlier read found on disk.
	if errors.Is(err, errShort) {
		return Segment{}, &Gap{After: after, Oldest: logs.oldest()}
	}
	if err != nil {
		return Segment{}, err
	}
	if reached {
		s.Until = until
	}
	s.seal()
	return s, nil
}

// logList contains the numbers of logs, in ascending order.
type logList struct {
	since   int64
	numbers []uint64
}

// oldest returns the position at the beginning of the first log.
func (l *logList) oldest() Position { return Position{Since: l.since, Log: l.numbers[0]} }

// contain reports whether the log of a position exists.
func (l *logList) contain(p Position) bool {
	_, found := slices.BinarySearch(l.numbers, p.Log)
	return found && p.Since == l.since
}

// logs returns the logs of the archive, and how far the last one, which is the present one, is on disk.
func (k *Keeper) logs() (l logList, end Position, err error) {
	k.mu.Lock()
	live, start := k.mu.live, k.mu.start
	l.since = k.mu.since
	k.mu.Unlock()
	// The synced size is read first: if a new log replaces this one meanwhile, it is read up to here.
	end = Position{Since: l.since, Log: live.number, Offset: uint64(live.synced.Load())}
	names, err := k.disk.List(k.dir)
	if err != nil {
		return l, end, err
	}
	for _, name := range names {
		if n, ok := LogNumber(name); ok && n >= start && n <= end.Log {
			l.numbers = append(l.numbers, n)
		}
	}
	slices.Sort(l.numbers)
	if n := len(l.numbers); n == 0 || l.numbers[n-1] != end.Log {
		return l, end, fmt.Errorf("logarchive: the log %d is missing in %s", end.Log, k.dir)
	}
	return l, end, nil
}

// errShort is the error for a log that ends before a position.
var errShort = errors.New("the log is too short")

// read adds the batches after s.To to s. reached means that it reached the end of the log.
func (k *Keeper) read(s *Segment, logs logList, end Position, maxBytes int) (reached bool, err error) {
	i, _ := slices.BinarySearch(logs.numbers, s.To.Log)
	// The numbers have gaps, because Pebble numbers all its files in one order. Gaps in the numbers therefore mean
	// nothing; the keeper removes the oldest logs first.
	for ; i < len(logs.numbers); i++ {
		if logs.numbers[i] != s.To.Log {
			s.To = Position{Since: s.To.Since, Log: logs.numbers[i]}
		}
		full, err := k.readLog(s, end, maxBytes)
		if err != nil || full {
			return false, err
		}
	}
	return true, nil
}

// readLog adds the batches of the log of s.To after s.To to s, until it is full.
func (k *Keeper) readLog(s *Segment, end Position, maxBytes int) (full bool, err error) {
	path := k.path(s.To.Log)
	f, err := k.disk.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// The present log is read as far as it is on disk, and others to their ends.
	limit := int64(end.Offset)
	if s.To.Log != end.Log {
		info, err := f.Stat()
		if err != nil {
			return false, err
		}
		if limit = info.Size(); s.To.Offset > uint64(limit) {
			return false, errShort
		}
	}
	records := logcheck.NewRecords(f, s.To.Log, int64(s.To.Offset), limit)
	for {
		batch, at, err := records.Next()
		if errors.Is(err, io.EOF) {
			return false, k.ended(f, path, records, s.To.Log == end.Log, limit)
		}
		if err != nil {
			return false, err
		}
		c, err := parse(batch)
		if err != nil {
			return false, fmt.Errorf("%w: %s: the record before byte %d: %w", pebble.ErrCorruption, path, at, err)
		}
		// The segment gets at least one batch, so that a reader makes progress.
		if len(s.Data) > headerBytes && len(s.Data)+len(batch) > headerBytes+maxBytes {
			return true, nil
		}
		// Syncs of the log leave records without entries.
		if s.To.Offset = uint64(at); c.logged() {
			s.add(s.To.Log, uint64(at), batch, c.stamp)
		}
	}
}

// ended returns an error if a log contains more than could be read. The present log has no torn end within its limit;
// in another one, a crash may have left it.
func (k *Keeper) ended(f vfs.File, path string, records *logcheck.Records, live bool, limit int64) error {
	at := records.Stopped()
	if at >= limit {
		return nil
	}
	// Syncs end between chunks, so the present log has no torn end within its limit.
	var err error = &logcheck.Corrupt{Offset: at}
	if !live {
		number, _ := LogNumber(k.disk.PathBase(path))
		err = logcheck.Log(io.NewSectionReader(f, 0, limit), number)
	}
	if corrupt := new(logcheck.Corrupt); errors.As(err, &corrupt) {
		return fmt.Errorf("%w: %s: %w", pebble.ErrCorruption, path, err)
	}
	return err
}
