package backup

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// holdsDir contains a note for each restoration in progress, in a directory for each backup.
const holdsDir = "restoring"

// ErrNotHeld means that a schedule may delete a backup while it is being restored.
var ErrNotHeld = errors.New("a schedule could delete the backup while it is being restored, because the note of the " +
	"restoration was not written")

// Hold notes that a backup is being restored, so that DeleteUnheld keeps it. The caller reads the manifest afterwards,
// which fails if the backup was deleted before. id identifies the restoration; Release ends it. The error is ErrNotHeld
// if the location is a store, and the note cannot be written.
func (s *Store) Hold(ctx context.Context, name, id string, now time.Time) error {
	for _, text := range []string{name, id} {
		if err := CheckName(text); err != nil {
			return err
		}
	}
	// Nothing is written to a location that is no store.
	if err := s.check(ctx); err != nil {
		return err
	}
	if err := s.write(ctx, holdsDir+"/"+name+"/"+id, mark{now}); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return nil
}

// Release removes the note of Hold, if it is there. The caller ignores its error: a note that remains keeps the backup
// for abandonedAfter.
func (s *Store) Release(ctx context.Context, name, id string) error {
	if err := s.files.remove(ctx, holdsDir+"/"+name+"/"+id); err != nil {
		return s.failed("end the restoration of "+name, err)
	}
	return nil
}

// held reports whether a backup is being restored. A restoration that was abandoned does not keep it forever.
func (s *Store) held(ctx context.Context, name string, now time.Time) (bool, error) {
	// Several restorations may read one backup, also of different clusters.
	ids, err := s.files.list(ctx, holdsDir+"/"+name)
	if err != nil {
		return true, s.failed("look for restorations", err)
	}
	for _, id := range ids {
		var m mark
		found, err := s.read(ctx, holdsDir+"/"+name+"/"+id, &m)
		if err != nil || found && now.Sub(m.At) < abandonedAfter {
			return true, err
		}
	}
	return false, nil
}

// DeleteUnheld is Delete for a backup that is not being restored. deleted is false if it is.
func (s *Store) DeleteUnheld(ctx context.Context, name string, now time.Time) (deleted bool, err error) {
	if err := CheckName(name); err != nil {
		return false, err
	}
	// Without a mark yet, so that a backup that is kept is never missing.
	held, err := s.held(ctx, name, now)
	if err != nil || held {
		return false, err
	}
	if err := s.Delete(ctx, name, now); err != nil {
		return false, err
	}
	// After the mark: a restoration looks for the mark after it has written its note, so one of the two sees the other.
	held, err = s.held(ctx, name, now)
	if err == nil && held {
		if err = s.files.remove(ctx, deletedPrefix+name); err != nil {
			err = s.failed("keep "+name, err)
		}
	}
	if err != nil {
		return false, fmt.Errorf("%w; repeat the deletion", err)
	}
	return !held, nil
}
