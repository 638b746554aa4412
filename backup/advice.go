package backup

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/backup/bucket"
)

// advice returns what an operator does about an error of a store, as the end of its text, or nothing.
func advice(err error) string {
	var r *bucket.Refusal
	answered := errors.As(err, &r)
	switch {
	case vfs.IsNoSpaceError(err), errors.Is(err, syscall.EDQUOT), answered && r.Full():
		return "; the location is full: free space there, for example with `cqld ctl backup delete --grace 0s` for " +
			"backups that are not needed, and then repeat the command or resume the job"
	// Buckets have advice of their own, which depends on the service.
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "; allow the user that runs cqld to read and write there, on every node, and then repeat the command " +
			"or resume the job"
	}
	return ""
}
