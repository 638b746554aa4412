package backup

import (
	"context"
	"errors"
	"slices"
	"time"
)

// mark is the content of a file in deletedPrefix, and of sweepingName.
type mark struct {
	At time.Time `json:"at"`
}

// Delete marks a backup as deleted. Sweep removes it later. A backup that was marked before keeps its first mark, so
// that repeated deletions do not extend the grace.
func (s *Store) Delete(ctx context.Context, name string, now time.Time) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	// Of a removal that was interrupted, only the mark may be left.
	marked, err := s.files.exists(ctx, deletedPrefix+name)
	if err == nil && marked {
		return nil
	}
	// An abandoned or damaged backup can be deleted as well.
	found := false
	if err == nil {
		found, err = s.files.exists(ctx, backupsPrefix+name)
	}
	if err == nil && !found {
		err = ErrNoBackup
	}
	if err != nil {
		return s.failed("delete "+name, err)
	}
	return s.write(ctx, deletedPrefix+name, mark{now})
}

// Swept is what Sweep has removed.
type Swept struct {
	Backups []string
	Objects int
	// Segments are of archived logs, and older than all backups.
	Segments int
	Bytes    int64 // of objects and segments
	// Kept is the number of objects that no backup needs and that were kept, because they are not older than the grace
	// or because a backup is being made.
	Kept int
}

// Sweep removes the backups that were deleted longer ago than grace, the objects that no backup needs and that were
// written longer ago than grace, and the archived logs from before the first backup. It removes no object and no log
// while a backup is being made.
func (s *Store) Sweep(ctx context.Context, now time.Time, grace time.Duration) (out Swept, err error) {
	if err := s.check(ctx); err != nil {
		return out, err
	}
	if running, err := s.sweeping(ctx, now); err != nil || running {
		return out, errors.Join(err, s.failed("remove backups", ErrSweeping))
	}
	if err := s.write(ctx, sweepingName, mark{now}); err != nil {
		return out, err
	}
	// Also when the caller no longer waits: a mark that remains delays backups.
	unbound := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, s.files.remove(unbound, sweepingName)) }()
	ctx, cancel := context.WithTimeoutCause(ctx, sweepMax, errors.New("there is more to remove: repeat the command"))
	defer cancel()
	all, err := s.List(ctx)
	if err != nil {
		return out, err
	}
	// A backup that begins after the list sees the mark of this sweep, and fails.
	needed, making, kept := map[string]bool{}, false, []*Manifest{}
	for _, l := range all {
		if !l.Deleted.IsZero() && now.Sub(l.Deleted) >= grace {
			if err := s.remove(ctx, l.Name); err != nil {
				return out, err
			}
			out.Backups = append(out.Backups, l.Name)
			continue
		}
		if l.Manifest != nil {
			kept = append(kept, l.Manifest)
			for _, o := range l.Manifest.Objects() {
				object, err := s.files.objectName(ctx, o.SHA256)
				if err != nil {
					return out, s.failed("remove backups", err)
				}
				needed[object] = true
			}
			continue
		}
		// A manifest that cannot be read may need any object. A note without a manifest is a backup that is being made.
		keeps, err := s.keeps(ctx, l.Name, now)
		if err != nil {
			return out, err
		}
		making = making || keeps
	}
	out, err = s.sweepObjects(ctx, out, needed, making, now.Add(-grace))
	if err == nil && !making {
		// A large file is written for long, so none is removed while a backup is being made.
		if err = s.files.removePartial(ctx, now.Add(-grace)); err != nil {
			err = s.failed("remove interrupted files", err)
		}
	}
	// A backup that is being made, or whose manifest cannot be read, may need any part of the logs.
	if err != nil || making {
		return out, err
	}
	return s.Logs().sweep(ctx, out, kept, now.Add(-grace))
}

// sweeping reports whether a sweep began recently. now may be of another node than the mark, so the bound is far longer
// than a sweep.
func (s *Store) sweeping(ctx context.Context, now time.Time) (bool, error) {
	var m mark
	found, err := s.read(ctx, sweepingName, &m)
	// One that was interrupted does not block backups forever.
	return found && now.Sub(m.At) < 2*sweepMax, err
}

// keeps reports whether a backup without a readable manifest keeps all objects.
func (s *Store) keeps(ctx context.Context, name string, now time.Time) (bool, error) {
	var w Started
	found, err := s.read(ctx, backupsPrefix+name+startedSuffix, &w)
	if err != nil || found && now.Sub(w.Created) < abandonedAfter {
		return true, err
	}
	// After the note: Complete removes the note when the manifest is there.
	manifest, err := s.files.exists(ctx, backupsPrefix+name+manifestSuffix)
	if err != nil {
		return true, s.failed("look for a manifest", err)
	}
	return manifest, nil
}

// remove removes the files of a deleted backup, its mark last: an interrupted removal is repeated.
func (s *Store) remove(ctx context.Context, name string) error {
	// The manifest is first: without it, the backup cannot be restored in part.
	err := s.files.remove(ctx, backupsPrefix+name+manifestSuffix)
	if err == nil {
		err = s.files.removeAll(ctx, backupsPrefix+name)
	}
	if err == nil {
		err = s.files.removeAll(ctx, holdsDir+"/"+name)
	}
	if err == nil {
		err = s.files.remove(ctx, deletedPrefix+name)
	}
	if err != nil {
		return s.failed("remove "+name, err)
	}
	return nil
}

// sweepObjects removes objects that are not needed and were written before a time, and adds them to out.
func (s *Store) sweepObjects(ctx context.Context, out Swept, needed map[string]bool, making bool, before time.Time) (
	Swept, error) {
	dirs, err := s.files.list(ctx, objectsDir)
	if err != nil {
		return out, s.failed("list", err)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		hashes, err := s.files.list(ctx, objectsDir+"/"+dir)
		if err != nil {
			return out, s.failed("list", err)
		}
		for _, hash := range hashes {
			// What somebody else has put there is no object.
			if needed[objectPath(hash)] || (Object{SHA256: hash}).check() != nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return out, s.failed("remove objects", context.Cause(ctx))
			}
			// Its age decides as well, so that a backup whose note was removed by hand is not damaged at once.
			info, err := s.files.stat(ctx, objectPath(hash))
			if err != nil {
				return out, s.failed("look for "+hash, err)
			}
			if making || info.Modified.After(before) {
				out.Kept++
				continue
			}
			if err := s.files.remove(ctx, objectPath(hash)); err != nil {
				return out, s.failed("remove "+hash, err)
			}
			out.Objects, out.Bytes = out.Objects+1, out.Bytes+info.Size
		}
	}
	return out, nil
}
