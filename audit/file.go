package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/DeRuina/timberjack"
)

// The current file is audit.log; older files are audit-TIME-REASON.log.
const (
	fileStem = "audit"
	fileExt  = ".log"
	mebibyte = 1 << 20
)

// files is the output in a directory: audit.log, and older files whose names contain their time. timberjack rotates by
// size and time; files removes the oldest ones, because timberjack bounds their number and age but not their total
// size. It is used by one goroutine.
type files struct {
	rotating *timberjack.Logger
	dir      string
	// max bounds the bytes of all files (max_log_size).
	max int64
	// step is the number of bytes between two checks of the total: a quarter of a file.
	step int64
	// since is the number of bytes written since the last check.
	since int64
	log   *slog.Logger
}

// openFiles creates the directory, and checks that the log can be written. The directory has mode 0700 and the files
// 0600: entries name users, addresses and data. Errors name the option or the file.
func openFiles(dir string, s *Settings, log *slog.Logger) (output, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit: make audit_logs_dir: %w", err)
	}
	name := filepath.Join(dir, fileStem+fileExt)
	// timberjack opens the file with the first entry. Opening it here reports an error to the operator that enables the
	// log, before requests depend on it.
	probe, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit: open the audit log: %w", err)
	}
	if err := probe.Close(); err != nil {
		return nil, err
	}
	// Validate has accepted the name.
	interval, _ := rollCycle(s.RollCycle)
	// size is the size of one file in MiB, the unit of timberjack.
	size := min(max(s.MaxLogSize/filesIn, fileBytesMin), fileBytesMax) / mebibyte
	f := &files{dir: dir, max: s.MaxLogSize, step: size * mebibyte / 4, log: log, rotating: &timberjack.Logger{
		Filename: name, MaxSize: int(size), RotationInterval: interval, FileMode: 0o600}}
	// Prune now, because max_log_size may be smaller than before.
	f.prune()
	return f, nil
}

// Write implements output. p consists of complete lines. Only the goroutine of the writer calls it, so the counts need
// no lock.
func (f *files) Write(p []byte) (int, error) {
	n, err := f.rotating.Write(p)
	if f.since += int64(n); f.since >= f.step {
		f.since = 0
		f.prune()
	}
	return n, err
}

// Close implements output.
func (f *files) Close() error {
	err := f.rotating.Close()
	f.prune()
	return err
}

// prune removes the oldest files until the total size, with the current file at its maximum size, is within max. It
// logs errors and does not return them, because entries must be written even if old files cannot be removed.
func (f *files) prune() {
	// The directory is read each time, because timberjack names the files, and operators may remove some.
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.log.Error("cannot list the audit log's files", "err", err)
		return
	}
	var old []fs.FileInfo
	// Count the current file with its maximum size, so that it can grow until the next check.
	total := int64(f.rotating.MaxSize) * mebibyte
	for _, e := range entries {
		name := e.Name()
		info, err := e.Info()
		// Ignore other files, which operators may keep in the directory.
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(name, fileStem+"-") ||
			!strings.HasSuffix(name, fileExt) {
			continue
		}
		old = append(old, info)
		total += info.Size()
	}
	// Names contain the time in a form that sorts, and cannot change like the modification time.
	slices.SortFunc(old, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, info := range old {
		// Stop when the total is within the bound; the newest files stay.
		if total <= f.max {
			return
		}
		if err := os.Remove(filepath.Join(f.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.log.Error("cannot remove an old file of the audit log", "file", info.Name(), "err", err)
			return
		}
		// A file that no longer exists counts as removed.
		total -= info.Size()
	}
}
