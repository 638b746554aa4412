package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cqld/auth"
	"cqld/backup/bucket"
	"cqld/schema"
)

// Names in a store.
const (
	layoutName     = "cqld-backups.json"
	objectsDir     = "objects"
	backupsDir     = "backups"
	backupsPrefix  = backupsDir + "/"
	deletedDir     = "deleted"
	deletedPrefix  = deletedDir + "/"
	sweepingName   = "sweeping.json"
	startedSuffix  = "/started.json"
	manifestSuffix = "/manifest.json"
	sharesDir      = "/shares"
	sharesInfix    = sharesDir + "/"
)

// Errors of a store. Methods wrap them with the operation and the location.
var (
	ErrNoBackup = errors.New("there is no backup with this name")
	ErrExists   = errors.New("a backup with this name exists")
	ErrDeleted  = errors.New("the backup was deleted")
	ErrNoStore  = errors.New("there are no backups at this location")
	ErrSweeping = errors.New("deleted backups are being removed from this location: try again when that has ended")
)

// write writes a small file as a whole, with a checksum.
func (s *Store) write(ctx context.Context, name string, v any) error {
	b, err := encode(v)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.files.write(ctx, name, bucket.Bytes(b))
	}
	if err != nil {
		return s.failed("write "+name, err)
	}
	return nil
}

// read reads a small file into v, and compares its checksum. A file that does not exist is found == false. A file that
// was damaged, or has another format, is an error: it must not be taken for one that is missing.
func (s *Store) read(ctx context.Context, name string, v any) (found bool, err error) {
	b, err := small(ctx, s.files, name, manifestBytesMax)
	defer s.memory.Charge(int64(len(b)))()
	if missing(err) {
		return false, nil
	}
	if err == nil {
		err = decode(b, v)
	}
	if err != nil {
		return false, s.failed("read "+name, err)
	}
	return true, nil
}

// Initialize makes the location a store, unless it is one. It refuses a location with other files: a mistyped path must
// not fill a directory of something else. A new store is encrypted if there are keys, and a store that is encrypted
// gets the newest of them. A store in clear is refused if there are keys.
func (s *Store) Initialize(ctx context.Context, now time.Time) error {
	l, err := s.files.readLayout(ctx)
	if err == nil && l != nil {
		if err = s.files.permits(ctx); err == nil {
			err = s.files.rewrap(ctx, l)
		}
	}
	if err != nil {
		return s.failed("begin", err)
	}
	if l != nil {
		return nil
	}
	names, err := s.files.list(ctx, ".")
	if err != nil {
		return s.failed("list", err)
	}
	for _, name := range names {
		// New file systems have the first. The second is left by a process that ended before it wrote the layout.
		if name != "lost+found" && name != partialDir {
			return s.failed("begin", fmt.Errorf("the location contains other files, such as %.100q: use an empty one",
				name))
		}
	}
	if err := s.files.begin(ctx, now); err != nil {
		return s.failed("begin", err)
	}
	return nil
}

// check returns an error unless the location is a store that this version can read, and whose key it has.
func (s *Store) check(ctx context.Context) error {
	l, err := s.files.readLayout(ctx)
	if err == nil && l == nil {
		err = ErrNoStore
	}
	if err == nil {
		_, err = l.unwrap(s.files.keys)
	}
	if err != nil {
		return s.failed("read", err)
	}
	return nil
}

// Started describes an attempt to make a backup. Times are of the clock of the node that leads.
type Started struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Nonce   string    `json:"nonce"` // of the attempt
	Job     string    `json:"job"`   // distinguishes two jobs with the same name of a backup
}

// Start notes that a backup is being made, which keeps the objects that it finds or writes from being removed. The
// attempt replaces an earlier one of the same job. If an earlier one has completed the backup, Start returns it.
func (s *Store) Start(ctx context.Context, w Started) (complete *Manifest, err error) {
	if err := CheckName(w.Name); err != nil {
		return nil, err
	}
	if err := s.Initialize(ctx, w.Created); err != nil {
		return nil, err
	}
	if complete, err = s.earlier(ctx, w); err != nil || complete != nil {
		return complete, err
	}
	if err := s.write(ctx, backupsPrefix+w.Name+startedSuffix, w); err != nil {
		return nil, err
	}
	// After the note is there: Sweep looks for notes after it has written its own, so one of the two sees the other.
	if running, err := s.sweeping(ctx, w.Created); err != nil || running {
		return nil, errors.Join(err, s.failed("begin "+w.Name, ErrSweeping))
	}
	return nil, nil
}

// earlier looks for earlier attempts. It returns the backup that an attempt of the same job has completed, or nil if
// the name is free for the job.
func (s *Store) earlier(ctx context.Context, w Started) (complete *Manifest, err error) {
	deleted, err := s.files.exists(ctx, deletedPrefix+w.Name)
	if err != nil {
		return nil, s.failed("look for "+w.Name, err)
	}
	m, err := s.manifest(ctx, w.Name)
	if err != nil && !errors.Is(err, ErrNoBackup) {
		return nil, err
	}
	var note Started
	found, failed := s.read(ctx, backupsPrefix+w.Name+startedSuffix, &note)
	// Next to a manifest, the note has no meaning.
	switch {
	case failed != nil:
		return nil, failed
	case err == nil && m.Job != w.Job || err != nil && found && note.Job != w.Job:
		return nil, s.failed("begin "+w.Name, ErrExists)
	case deleted && (err == nil || found):
		return nil, s.failed("continue "+w.Name, ErrDeleted)
	case err == nil:
		return m, nil
	}
	// A removal that was interrupted at its end has left the mark.
	if deleted {
		err := s.files.remove(ctx, deletedPrefix+w.Name)
		if err != nil {
			return nil, s.failed("begin "+w.Name, err)
		}
	}
	return nil, nil
}

// Attempt returns the note of a backup that is being made. A node that does not find it sees another store than the
// node that has written it. A node with keys refuses a store in clear.
func (s *Store) Attempt(ctx context.Context, name string) (w Started, err error) {
	if err := s.files.permits(ctx); err != nil {
		return w, s.failed("read", err)
	}
	found, err := s.read(ctx, backupsPrefix+name+startedSuffix, &w)
	if err == nil && !found {
		err = s.failed("read", fmt.Errorf("this node does not find the backup %s that another node has begun: all "+
			"nodes must use the same location, for example a shared directory", name))
	}
	return w, err
}

// PutShare stores the list of a node's files, until Complete includes it in the manifest. All files of the list must be
// stored already. The list of an earlier attempt is replaced.
func (s *Store) PutShare(ctx context.Context, name string, share *Share) error {
	return s.write(ctx, backupsPrefix+name+sharesInfix+share.Host, share)
}

// ShareOf returns the list of a node's files. The list was written by another node, so its names are checked.
func (s *Store) ShareOf(ctx context.Context, name, host string) (*Share, error) {
	share := new(Share)
	found, err := s.read(ctx, backupsPrefix+name+sharesInfix+host, share)
	if err == nil && !found {
		err = s.failed("read", fmt.Errorf("the files of node %s are missing", host))
	}
	return share, errors.Join(err, share.check())
}

// Complete writes the manifest, which makes the backup valid. All objects must be there. nonce is of the attempt, which
// must be the last one.
func (s *Store) Complete(ctx context.Context, m *Manifest, nonce string) error {
	if err := m.check(); err != nil {
		return s.failed("complete "+m.Name, err)
	}
	// The nodes have stored the objects; the leader looks for them, because it may see another directory than a node.
	objects := m.Objects()
	err := parallel(ctx, s.atOnce(statsAtOnce), len(objects), func(ctx context.Context, i int) error {
		o := objects[i]
		name, err := s.files.objectName(ctx, o.SHA256)
		if err != nil {
			return err
		}
		info, err := s.files.stat(ctx, name)
		if err == nil && info.Size != o.Size {
			err = fmt.Errorf("object %s has %d bytes instead of %d", o.SHA256, info.Size, o.Size)
		}
		return err
	})
	if err != nil {
		return s.failed("complete "+m.Name, err)
	}
	if err := s.current(ctx, m.Name, nonce); err != nil {
		return err
	}
	manifest := backupsPrefix + m.Name + manifestSuffix
	// A write that has failed may have been executed.
	failed := s.write(ctx, manifest, m)
	// A sweep that did not see the manifest has removed the note of a deleted backup, and perhaps objects.
	if err := s.current(ctx, m.Name, nonce); err != nil {
		return errors.Join(failed, err, s.files.remove(context.WithoutCancel(ctx), manifest))
	}
	if failed != nil {
		return failed
	}
	// What follows is no longer needed. A note that remains is ignored next to a manifest.
	_ = s.files.removeAll(ctx, backupsPrefix+m.Name+sharesDir)
	_ = s.files.remove(ctx, backupsPrefix+m.Name+startedSuffix)
	return nil
}

// current returns an error unless an attempt is the last one of its backup, and the backup was not deleted.
func (s *Store) current(ctx context.Context, name, nonce string) error {
	note, err := s.Attempt(ctx, name)
	if err == nil && note.Nonce != nonce {
		err = s.failed("complete "+name, errors.New("another attempt has begun"))
	}
	deleted, failed := s.files.exists(ctx, deletedPrefix+name)
	if failed == nil && deleted {
		failed = s.failed("complete "+name, ErrDeleted)
	}
	return errors.Join(err, failed)
}

// Manifest returns the manifest of a backup that was not deleted.
func (s *Store) Manifest(ctx context.Context, name string) (*Manifest, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	deleted, err := s.files.exists(ctx, deletedPrefix+name)
	if err != nil {
		return nil, s.failed("look for "+name, err)
	}
	if deleted {
		return nil, s.failed("read "+name, ErrNoBackup)
	}
	return s.manifest(ctx, name)
}

// manifest returns the manifest of a backup, also of a deleted one.
func (s *Store) manifest(ctx context.Context, name string) (*Manifest, error) {
	file := backupsPrefix + name + manifestSuffix
	b, err := small(ctx, s.files, file, manifestBytesMax)
	defer s.memory.Charge(int64(len(b)))()
	if missing(err) {
		return nil, s.failed("read "+name, ErrNoBackup)
	}
	if err != nil {
		return nil, s.failed("read "+file, err)
	}
	m, err := DecodeManifest(b)
	if err == nil && m.Name != name {
		err = fmt.Errorf("it is the manifest of %s", m.Name)
	}
	if err != nil {
		return nil, s.failed("read "+file, err)
	}
	return m, nil
}

// Contents returns the schema and the roles of a backup, after it has compared their hashes. They contain the names of
// everything and the hashes of passwords.
func (s *Store) Contents(ctx context.Context, m *Manifest) (c Contents, err error) {
	b, err := s.object(ctx, m.Catalog)
	if err == nil {
		c.Schema, err = schema.Decode(b)
	}
	if err != nil {
		return c, s.failed("read the schema of "+m.Name, err)
	}
	if m.Roles == nil {
		return c, nil
	}
	if b, err = s.object(ctx, *m.Roles); err == nil {
		c.Roles, err = auth.Decode(b)
	}
	if err != nil {
		return c, s.failed("read the roles of "+m.Name, err)
	}
	return c, nil
}

// Listed is a backup of a list.
type Listed struct {
	Name     string
	Manifest *Manifest // nil if the backup is not complete, or cannot be read
	Job      string    // whose attempts made it; empty if that cannot be read
	Problem  string    // why it cannot be restored
	Deleted  time.Time // zero unless it was deleted
}

// List returns all backups, the oldest first. A backup that cannot be read is listed with its problem, so that one
// damaged manifest does not hide the others.
func (s *Store) List(ctx context.Context) ([]Listed, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	var out []Listed
	for _, name := range names {
		l := Listed{Name: name}
		var at mark
		if found, err := s.read(ctx, deletedPrefix+name, &at); err != nil {
			l.Problem = err.Error()
		} else if found {
			l.Deleted = at.At
		}
		m, err := s.manifest(ctx, name)
		switch {
		case errors.Is(err, ErrNoBackup):
			l.Problem = "it is not complete"
			var note Started
			if _, err := s.read(ctx, backupsPrefix+name+startedSuffix, &note); err == nil {
				l.Job = note.Job
			}
		case err != nil:
			l.Problem = err.Error()
		default:
			l.Manifest, l.Job = m, m.Job
		}
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b Listed) int { return a.created().Compare(b.created()) })
	return out, nil
}

// created returns the time of a backup; zero for one that cannot be read, which is listed first.
func (l *Listed) created() time.Time {
	if l.Manifest == nil {
		return time.Time{}
	}
	return l.Manifest.Created
}

// names returns the names of all backups, sorted, also of incomplete and of deleted ones.
func (s *Store) names(ctx context.Context) ([]string, error) {
	all, err := s.files.list(ctx, backupsDir)
	if err != nil {
		return nil, s.failed("list", err)
	}
	// What somebody else has put there is none.
	names := slices.DeleteFunc(all, func(name string) bool { return CheckName(name) != nil })
	slices.Sort(names)
	return names, nil
}
