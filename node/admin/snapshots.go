package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/node/datadir"
	"cqld/node/snapshot"
	"cqld/query/system"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/database"
	"cqld/storage/encryption"
	"cqld/storage/lost"
)

// Snapshots makes, verifies, lists and removes snapshots. A snapshot is on this node only; a snapshot of a cluster is
// one of each node.
type Snapshots struct {
	dir     string // the data directory
	name    string // of the cluster
	disk    vfs.FS // of dir
	catalog Catalog
	engine  *storage.Engine
	stamp   func() int64 // the hybrid clock
	clock   env.Clock
	auto    config.Snapshots
	// lifetime ends with the node.
	lifetime context.Context
	log      *slog.Logger
	// files is held while snapshots are measured or removed, which reads and removes many files. Nothing that makes a
	// snapshot waits for it: TRUNCATE does not.
	files sync.Mutex
	mu    struct {
		sync.Mutex
		// making contains the names of snapshots in progress. Only the goroutine that makes one uses its directory.
		making map[string]bool
		// retained contains the names of snapshots whose import began and is not complete. The node does not remove
		// them by itself: an import may be what fills the disk.
		retained map[string]bool
	}
	// changed is set when Watch has something new to look at.
	changed atomic.Bool
}

// A snapshot is a directory DATA/snapshots/TAG, as package snapshot describes it. While a snapshot is made or removed,
// its directory has a name that begins with a dot, so an interrupted one does not count. The two names differ, because
// a snapshot may be made while an earlier one with its name is removed.
const (
	snapshotsDir = "snapshots"
	snapshotTemp = ".making-"
	snapshotGone = ".removed-"
)

// path returns the directory of a snapshot, or of a temporary one. The caller has validated the name.
func (v *Snapshots) path(name string) string {
	return filepath.Join(v.dir, snapshotsDir, name)
}

// tagPattern matches valid tags. A tag is the name of a directory. It must not begin with a dot or contain a slash, and
// with snapshotTemp or snapshotGone it has at most the 255 bytes of a file name.
func tagPattern() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,245}$`) }

// validTag returns an error for a name that cannot be the name of a snapshot.
func validTag(tag string) error {
	if !tagPattern().MatchString(tag) {
		return &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("%q is not a valid snapshot name: use only letters, digits and _ . : -", tag)}
	}
	return nil
}

// Take makes a snapshot. Rows that were acknowledged before the call are in it: a checkpoint flushes or includes the
// log. It is of this node at one time; other nodes' snapshots are of slightly other times, and a repair after a restore
// evens that out.
func (v *Snapshots) Take(ctx context.Context, a control.SnapshotArgs, _ control.Report) (out control.Snapshot,
	err error) {
	now := time.Now().UTC()
	// Without a tag, the time in milliseconds is the name.
	if a.Tag == "" {
		a.Tag = strconv.FormatInt(now.UnixMilli(), 10)
	}
	if err := validTag(a.Tag); err != nil {
		return out, err
	}
	var tables []*schema.Table
	// Without keyspaces, every table of the node is included, also system tables.
	for _, keyspace := range keyspacesOr(a.Keyspaces, "") {
		list, err := v.catalog.Tables(control.TablesArgs{Keyspace: keyspace})
		if err != nil {
			return out, err
		}
		tables = append(tables, list...)
	}
	m := v.manifest(v.catalog.schema(), tables)
	m.Name, m.Reason, m.Created, m.Complete = a.Tag, snapshot.Manual, now, len(a.Keyspaces) == 0
	if err := v.take(ctx, m, true); err != nil {
		return out, err
	}
	out, err = v.read(a.Tag)
	// A snapshot of a node that has lost data is made nevertheless, and says what is missing.
	if out.Lacks = m.Lacks; len(out.Lacks) > 0 {
		v.log.Warn("snapshot is incomplete: this node lost data that is not repaired yet", "tag", a.Tag, "lacks",
			out.Lacks)
	}
	return out, err
}

// take makes the snapshot that a manifest describes. It is on disk when take returns. Other snapshots may be made
// meanwhile: with checksums, all files are read, which takes long.
func (v *Snapshots) take(ctx context.Context, m *snapshot.Manifest, checksums bool) error {
	if !v.reserve(m.Name) {
		return &control.Error{Code: control.Refused, Message: fmt.Sprintf("snapshot %s already exists", m.Name)}
	}
	defer v.release(m.Name)
	return v.make(ctx, m, checksums)
}

// reserve claims the name of a snapshot, and reports false if it exists: two snapshots of one name would write into one
// directory.
func (v *Snapshots) reserve(tag string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := v.disk.Stat(v.path(tag)); err == nil || v.mu.making[tag] {
		return false
	}
	if v.mu.making == nil {
		v.mu.making = map[string]bool{}
	}
	v.mu.making[tag] = true
	return true
}

// release ends the reservation of a name, after its snapshot was made or has failed.
func (v *Snapshots) release(tag string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.mu.making, tag)
}

// lacking describes what a snapshot of this node cannot contain: ranges that were lost and not repaired yet, and
// detected corrupt files that were not taken out of service yet. Corrupt blocks that have not been read are not
// detected. Both lists are from the storage engine.
func lacking(lost []lost.Range, corrupt []database.CorruptionInfo, catalog *schema.Schema) (out []string) {
	for _, x := range lost {
		// A dropped table may still have lost ranges.
		name := "a dropped table"
		if t := catalog.TableByStorage(x.Table); t != nil {
			name = t.Keyspace + "." + t.Name
		}
		out = append(out, fmt.Sprintf("%s, tokens %s: lost with %s, not repaired yet", name, x.Tokens,
			filepath.Base(x.Path)))
	}
	for _, c := range corrupt {
		out = append(out, fmt.Sprintf("data of %s: the file is corrupt", filepath.Base(c.Path)))
	}
	return out
}

// keyspacesOr returns the names, or one that means all of them.
func keyspacesOr(names []string, none string) []string {
	if len(names) == 0 {
		return []string{none}
	}
	return names
}

// make makes a snapshot under a name that begins with a dot, and renames it when it is complete and on disk. The caller
// has reserved the name. After an error, no directory is left.
func (v *Snapshots) make(ctx context.Context, m *snapshot.Manifest, checksums bool) (err error) {
	temp := v.path(snapshotTemp + m.Name)
	defer func() {
		if err != nil {
			// What is left of a failed snapshot is removed, or an operator would find it later.
			err = errors.Join(fmt.Errorf("node: make a snapshot: %w", err), removeAll(v.disk, temp))
		}
	}()
	if err := removeAll(v.disk, temp); err != nil { // left by an interrupted snapshot
		return err
	}
	// Only the user of the process may read a snapshot, as it contains all data.
	if err := datadir.MakeDurable(v.disk, temp); err != nil {
		return err
	}
	// The files are hard links, so a snapshot takes no space until the originals are removed. A snapshot of everything
	// is a checkpoint of the engine; one of some tables links their files only.
	data := v.disk.PathJoin(temp, snapshot.DataDir)
	if m.Complete {
		err = v.engine.Checkpoint(data)
	} else {
		ids := make([]schema.StorageID, len(m.Tables))
		for i, t := range m.Tables {
			ids[i] = t.StorageID
		}
		err = v.engine.CheckpointTables(data, ids)
	}
	if err != nil {
		return err
	}
	// After the checkpoint, which may have found that a file is corrupt.
	m.Lacks = lacking(v.engine.Lost(), v.engine.Corruptions(), v.catalog.schema())
	if err := snapshot.Seal(ctx, v.disk, temp, m, checksums); err != nil {
		return err
	}
	if err := v.disk.Rename(temp, v.path(m.Name)); err != nil {
		return err
	}
	// A power failure must not undo the rename. A snapshot that may disappear has failed.
	if err := snapshot.SyncDir(v.disk, v.path("")); err != nil {
		return errors.Join(err, removeAll(v.disk, v.path(m.Name)))
	}
	return nil
}

// removeInterrupted removes what a crash has left of snapshots that were being made or removed: their links keep files
// that compactions have removed, and no command shows them. No snapshot may be in progress.
func (v *Snapshots) removeInterrupted() error {
	names, err := v.disk.List(v.path(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, snapshotTemp) || strings.HasPrefix(name, snapshotGone) {
			err = errors.Join(err, removeAll(v.disk, v.path(name)))
		}
	}
	return err
}

// removeAll removes a directory if it exists.
func removeAll(disk vfs.FS, dir string) error {
	if err := disk.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// read returns a snapshot with its size. The size is the size of its files; the true size counts only files that no
// other directory has. A snapshot without a manifest that can be read has a Problem.
func (v *Snapshots) read(tag string) (control.Snapshot, error) {
	dir := v.path(tag)
	s := control.Snapshot{Tag: tag, Directory: dir, Keyspaces: []string{}}
	m, err := snapshot.Read(v.disk, dir)
	if err != nil {
		// The others are listed nevertheless, and it can be removed.
		s.Problem = err.Error()
	} else {
		s.Created, s.Reason, s.Expires = m.Created, string(m.Reason), m.Expires
		for _, k := range m.Keyspaces {
			s.Keyspaces = append(s.Keyspaces, k.Name)
		}
	}
	// The directory is shown as an absolute path, because operators copy it.
	if abs, err := filepath.Abs(dir); err == nil && encryption.Below(v.disk) == vfs.Default {
		s.Directory = abs
	}
	return s, v.measure(dir, &s)
}

// measure adds the sizes of the files in a directory, and in the directories in it.
func (v *Snapshots) measure(dir string, s *control.Snapshot) error {
	names, err := v.disk.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		// A rotation of keys creates and renames hidden files.
		if strings.HasPrefix(name, ".") {
			continue
		}
		path := v.disk.PathJoin(dir, name)
		info, err := v.disk.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := v.measure(path, s); err != nil {
				return err
			}
			continue
		}
		// The manifest has a link of its own in the directory of data.
		links := linked(path, info)
		if name == snapshot.FileName {
			links = 1
		}
		// A file that only this snapshot has would free its size when the snapshot is removed.
		s.Size += info.Size()
		if links == 1 {
			s.TrueSize += info.Size()
		}
	}
	return nil
}

// Verify compares the files of a snapshot with its manifest. It reads all of them, and other operations on snapshots
// continue meanwhile.
func (v *Snapshots) Verify(ctx context.Context, a control.VerifyArgs, _ control.Report) (out control.Verified,
	err error) {
	m, err := v.manifestOf(a.Tag)
	if err != nil {
		return out, err
	}
	out.Files = len(m.Files)
	out.Problems, out.Unchecked, err = snapshot.Verify(ctx, v.disk, v.path(a.Tag), m)
	return out, err
}

// Show returns the manifest of a snapshot, which other programs cannot read if the node encrypts its files.
func (v *Snapshots) Show(_ context.Context, a control.VerifyArgs, _ control.Report) (json.RawMessage, error) {
	m, err := v.manifestOf(a.Tag)
	if err != nil {
		return nil, err
	}
	return m.Encode()
}

// manifestOf reads the manifest of a snapshot that an operator has named.
func (v *Snapshots) manifestOf(tag string) (*snapshot.Manifest, error) {
	if err := validTag(tag); err != nil {
		return nil, err
	}
	dir := v.path(tag)
	m, err := snapshot.Read(v.disk, dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := v.disk.Stat(dir); err != nil {
			return nil, noSnapshot(tag)
		}
		return nil, &control.Error{Code: control.Refused,
			Message: fmt.Sprintf("snapshot %s has no manifest: it cannot be verified", tag)}
	}
	if err != nil {
		return nil, &control.Error{Code: control.Refused, Message: fmt.Sprintf("snapshot %s: %v", tag, err)}
	}
	return m, nil
}

// noSnapshot returns the error of a snapshot that an operator has named and that does not exist.
func noSnapshot(tag string) error {
	return &control.Error{Code: control.Invalid, Message: fmt.Sprintf("snapshot %s does not exist", tag)}
}

// List lists the snapshots. The list is empty if no snapshot was made yet.
func (v *Snapshots) List(context.Context, control.None, control.Report) (control.Snapshots, error) {
	v.files.Lock()
	defer v.files.Unlock()
	return v.listLocked()
}

// listLocked lists the snapshots; the caller holds files.
func (v *Snapshots) listLocked() (control.Snapshots, error) {
	out := control.Snapshots{Snapshots: []control.Snapshot{}}
	tags, err := v.tags()
	for _, tag := range tags {
		// A snapshot whose manifest cannot be read is listed with the reason, because its operator should know.
		s, err := v.read(tag)
		if err != nil {
			return out, err
		}
		out.Snapshots = append(out.Snapshots, s)
	}
	return out, err
}

// tags returns the names of the snapshots, sorted.
func (v *Snapshots) tags() (tags []string, err error) {
	// A node that has made no snapshot has no directory.
	found, err := v.disk.List(v.path(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range found {
		// A name that begins with a dot is a snapshot that was not completed. A file is not a snapshot.
		if info, err := v.disk.Stat(v.path(name)); err == nil && info.IsDir() && !strings.HasPrefix(name, ".") {
			tags = append(tags, name)
		}
	}
	slices.Sort(tags)
	return tags, err
}

// Shown returns the tables of the snapshots for system_views. It has no sizes: the files of a snapshot contain
// several tables. A snapshot that cannot be read, or is being removed, is omitted; cqld ctl listsnapshots reports the
// error.
func (v *Snapshots) Shown() []system.Snapshot {
	// Without files: a query must not wait until a snapshot is removed.
	tags, err := v.tags()
	// Errors are not reported here: the virtual table would be empty instead.
	if err != nil {
		return nil
	}
	var out []system.Snapshot
	for _, tag := range tags {
		m, err := snapshot.Read(v.disk, v.path(tag))
		if err != nil {
			continue
		}
		for _, t := range m.Tables {
			out = append(out, system.Snapshot{Name: tag, Keyspace: t.Keyspace, Table: t.Name, Created: m.Created})
		}
	}
	return out
}

// Clear removes snapshots and returns which. Either a tag or all of them must be given, as in nodetool.
func (v *Snapshots) Clear(_ context.Context, a control.ClearArgs, _ control.Report) (control.Snapshots, error) {
	out := control.Snapshots{Snapshots: []control.Snapshot{}}
	if a.All == (a.Tag != "") {
		return out, &control.Error{Code: control.Invalid, Message: "Specify snapshot name or --all"}
	}
	v.files.Lock()
	defer v.files.Unlock()
	// The list is read first, so that the answer names what was removed.
	all, err := v.listLocked()
	if err != nil {
		return out, err
	}
	for _, s := range all.Snapshots {
		if !a.All && s.Tag != a.Tag {
			continue
		}
		// A snapshot that cannot be removed stops the operation, and those before it are gone.
		if err := v.removeLocked(s.Tag); err != nil {
			return out, err
		}
		out.Snapshots = append(out.Snapshots, s)
	}
	// A tag that does not exist is an error, because an operator has named it.
	if !a.All && len(out.Snapshots) == 0 {
		return out, noSnapshot(a.Tag)
	}
	return out, nil
}

// removeLocked removes a snapshot; the caller holds files. The directory is renamed first: a snapshot that is removed
// in part, by a crash, does not count.
func (v *Snapshots) removeLocked(tag string) error {
	gone := v.path(snapshotGone + tag)
	if err := removeAll(v.disk, gone); err != nil {
		return err
	}
	if err := v.disk.Rename(v.path(tag), gone); err != nil {
		return err
	}
	v.unretain(tag)
	// Files are removed only when a power failure cannot undo the rename: the snapshot would be listed without them.
	if err := snapshot.SyncDir(v.disk, v.path("")); err != nil {
		return err
	}
	return v.disk.RemoveAll(gone)
}
