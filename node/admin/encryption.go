package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/jobs"
	"cqld/node/control"
	"cqld/node/datadir"
	"cqld/storage"
	"cqld/storage/encryption"
)

// Encryption shows which keys encrypt the files of this node, and rewrites files that the newest key does not encrypt.
type Encryption struct {
	dirs   []string // all directories and files that are encrypted
	disk   vfs.FS
	engine *storage.Engine
	jobs   *Jobs
	clock  env.Clock
}

// newEncryption returns the operations on the files of a data directory.
func newEncryption(dir string, disk vfs.FS, engine *storage.Engine, j *Jobs) *Encryption {
	e := &Encryption{disk: disk, engine: engine, jobs: j, clock: j.o.Clock}
	for _, name := range []string{datadir.Rows, datadir.Metadata, datadir.Recovery, snapshotsDir} {
		e.dirs = append(e.dirs, filepath.Join(dir, name))
	}
	return e
}

// removeInterrupted removes what a crash has left of rewrites. No rewrite may be in progress.
func (e *Encryption) removeInterrupted() error {
	if disk, ok := e.disk.(*encryption.FS); ok {
		return disk.RemoveInterrupted(e.dirs...)
	}
	return nil
}

// Uses returns how many files each key encrypts. It is nil if no key is configured: then all files are in clear. It
// reads the beginning of each file.
func (e *Encryption) Uses() ([]control.KeyUse, error) {
	disk, ok := e.disk.(*encryption.FS)
	if !ok {
		return nil, nil
	}
	uses, err := encryption.Uses(disk.Unwrap(), disk.Keys(), e.dirs...)
	newest := disk.Keys().Newest()
	out := make([]control.KeyUse, 0, len(uses))
	for _, u := range uses {
		out = append(out, control.KeyUse{Key: u.Key.String(), Newest: u.Key == newest, Files: u.Files, Bytes: u.Bytes})
	}
	return out, err
}

// Rotate rewrites the files that the newest key does not encrypt, as a job.
func (e *Encryption) Rotate(ctx context.Context, a control.RotateArgs, report control.Report) (out control.Rotated,
	err error) {
	disk, ok := e.disk.(*encryption.FS)
	if !ok {
		return out, &control.Error{Code: control.Refused, Message: errNoKeys.Error()}
	}
	if a.BytesPerSecond < 0 {
		return out, &control.Error{Code: control.Invalid,
			Message: "the throughput must not be negative; 0 means no bound"}
	}
	target := "key " + disk.Keys().Newest().String()
	err = e.jobs.start(ctx, jobs.KeyRotation, target, jobs.Bytes, a, e.rotationWork(a), report)
	if err != nil {
		return out, err
	}
	out.Keys, err = e.Uses()
	return out, err
}

// errNoKeys is the error of a rotation on a node without keys.
var errNoKeys = errors.New("the node does not encrypt its files: set encryption_key_file and restart it")

// rotationWork returns the work of a rotation. A new attempt rewrites the files that are left.
func (e *Encryption) rotationWork(a control.RotateArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		disk, ok := e.disk.(*encryption.FS)
		if !ok {
			return errNoKeys
		}
		// The logs contain what is in the memtables. After the flush, all logs but the one in use are obsolete.
		if err := e.engine.Flush(); err != nil {
			return err
		}
		stale, err := disk.Stale(e.dirs...)
		if err != nil {
			return err
		}
		var done, total int64
		for _, s := range stale {
			total += s.Bytes
		}
		p := pace{clock: e.clock, bytesPerSecond: a.BytesPerSecond, began: e.clock.Monotonic()}
		for i, s := range stale {
			what := fmt.Sprintf("rewriting file %d of %d", i+1, len(stale))
			j.Progress(done, total, what)
			// Parts of the file are added to the files that are done.
			part := done
			if _, err := disk.Rewrite(ctx, s, func(bytes int) error {
				part += int64(bytes)
				j.Progress(min(part, total), total, what)
				return p.wait(ctx, bytes)
			}); err != nil {
				return err
			}
			done += s.Bytes
		}
		j.Progress(total, total, "done")
		return nil
	}
}
