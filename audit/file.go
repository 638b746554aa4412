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

const (
	fileStem = "audit"
	fileExt  = ".log"
	mebibyte = 1 << 20
)

// files is the output in a directory: audit.log, and older files whose names contain their time. timberjack rotates by
// size and time; files removes the oldest ones, because timberjack bounds their number and age but not their total
// size.
type files struct {
	rotating *timberjack.Logger
	dir      string
	max      int64 // bytes of all files
	step     int64 // bytes between two checks of the total
	since    int64 // bytes written since the last check
	log      *slog.Logger
}

// openFiles creates the directory, and checks that the log can be written.
func openFiles(dir string, s *Settings, log *slog.Logger) (output, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit: make audit_logs_dir: %w", err)
	}
	name := filepath.Join(dir, fileStem+fileExt)
	probe, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit: open the audit log: %w", err)
	}
	if err := probe.Close(); err != nil {
		return nil, err
	}
	interval, _ := rollCycle(s.RollCycle)
	size := min(max(s.MaxLogSize/filesIn, fileBytesMin), fileBytesMax) / mebibyte
	f := &files{dir: dir, max: s.MaxLogSize, step: size * mebibyte / 4, log: log, rotating: &timberjack.Logger{
		Filename: name, MaxSize: int(size), RotationInterval: interval, FileMode: 0o600}}
	f.prune()
	return f, nil
}

// Write implements output. p consists of complete lines.
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

// prune removes the oldest files until the total, and the file that is being written at its largest, are within max.
func (f *files) prune() {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.log.Error("cannot list the audit log's files", "err", err)
		return
	}
	var old []fs.FileInfo
	total := int64(f.rotating.MaxSize) * mebibyte
	for _, e := range entries {
		name := e.Name()
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(name, fileStem+"-") ||
			!strings.HasSuffix(name, fileExt) {
			continue
		}
		old = append(old, info)
		total += info.Size()
	}
	slices.SortFunc(old, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, info := range old {
		if total <= f.max {
			return
		}
		if err := os.Remove(filepath.Join(f.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.log.Error("cannot remove an old file of the audit log", "file", info.Name(), "err", err)
			return
		}
		total -= info.Size()
	}
}
