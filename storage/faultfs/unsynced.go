package faultfs

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Unsynced is a file system that reports success for syncs of log files without syncing them. A crash of the file
// system below it then loses acknowledged writes. Only files with the suffix .log are concerned: Pebble's commit log.
// Tests use it to show that a simulation detects lost writes.
type Unsynced struct{ vfs.FS }

// unsyncedFile is a file whose syncs do nothing.
type unsyncedFile struct{ vfs.File }

func (f unsyncedFile) Sync() error                { return nil }
func (f unsyncedFile) SyncData() error            { return nil }
func (f unsyncedFile) SyncTo(int64) (bool, error) { return true, nil }

// Create implements vfs.FS.
func (u Unsynced) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.Create(name, category)
	return u.wrap(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (u Unsynced) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.ReuseForWrite(oldname, newname, category)
	return u.wrap(newname, f, err)
}

func (u Unsynced) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return unsyncedFile{f}, nil
}
