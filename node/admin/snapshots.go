package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cqld/node/control"
	"cqld/query/system"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/database"
	"cqld/storage/lost"
)

// Snapshots makes, lists and removes snapshots. A snapshot is on this node only; a snapshot of a cluster is one of each
// node. Snapshots concern the real file system only; a node of a test in memory cannot make any.
type Snapshots struct {
	dir     string // the data directory
	name    string // of the cluster
	catalog Catalog
	engine  *storage.Engine
	log     *slog.Logger
	mu      sync.Mutex // held while snapshots are made, read or removed
}

// A snapshot is a directory DATA/snapshots/TAG. snapshot.json describes its content; data contains hard links to the
// storage engine's files. While a snapshot is made, its directory has a name that begins with a dot, so an interrupted
// one does not count.
//
//	snapshots/before-upgrade/snapshot.json
//	snapshots/before-upgrade/data/000123.sst …
const (
	snapshotsDir = "snapshots"
	snapshotFile = "snapshot.json"
	snapshotTemp = ".making-"
)

// snapshotJSON is the content of snapshot.json. The file is written last before the rename, so a snapshot with it is
// complete.
type snapshotJSON struct {
	Tag       string
	Created   time.Time
	Host      string
	Cluster   string
	Build     string
	Epoch     uint64 // of the metadata
	Keyspaces []string
	Tables    []snapshotTable
}

// snapshotTable is a table of a snapshot, with its number in the files. The number finds the table's data in the
// files.
type snapshotTable struct {
	Keyspace, Table string
	ID              string
	Storage         schema.StorageID
}

// path returns the directory of a snapshot, or of a temporary one. The caller has validated the name.
func (v *Snapshots) path(name string) string {
	return filepath.Join(v.dir, snapshotsDir, name)
}

// tagPattern matches valid tags. A tag is the name of a directory. It must not begin with a dot or contain a slash.
func tagPattern() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$`) }

// Take makes a snapshot. It returns an error for an invalid tag before it waits for another snapshot. Rows that were
// acknowledged before the call are in it: a checkpoint flushes or includes the log. It is of this node at one time;
// other nodes' snapshots are of slightly other times, and a repair after a restore evens that out.
func (v *Snapshots) Take(_ context.Context, a control.SnapshotArgs, _ control.Report) (out control.Snapshot,
	err error) {
	now := time.Now().UTC()
	// Without a tag, the time in milliseconds is the name.
	if a.Tag == "" {
		a.Tag = strconv.FormatInt(now.UnixMilli(), 10)
	}
	if !tagPattern().MatchString(a.Tag) {
		return out, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("%q is not a valid snapshot name: use only letters, digits and _ . : -", a.Tag)}
	}
	// Two snapshots of one name would write into one directory.
	v.mu.Lock()
	defer v.mu.Unlock()
	// The name is checked under the lock, so it stays free.
	if _, err := os.Stat(v.path(a.Tag)); err == nil {
		return out, &control.Error{Code: control.Refused, Message: fmt.Sprintf("snapshot %s already exists", a.Tag)}
	}
	// The metadata's epoch shows which schema the snapshot has.
	made := snapshotJSON{Tag: a.Tag, Created: now, Host: v.catalog.cluster.HostID().String(), Cluster: v.name,
		Build: control.Build(),
		Epoch: v.catalog.cluster.Metadata().Epoch}
	var ids []schema.StorageID
	// Without keyspaces, every table of the node is included, also system tables.
	for _, keyspace := range keyspacesOr(a.Keyspaces, "") {
		tables, err := v.catalog.Tables(control.TablesArgs{Keyspace: keyspace})
		if err != nil {
			return out, err
		}
		for _, t := range tables {
			ids = append(ids, t.StorageID)
			made.Tables = append(made.Tables, snapshotTable{t.Keyspace, t.Name, t.ID.String(), t.StorageID})
			// The keyspaces are in the order of their tables, each once.
			if !slices.Contains(made.Keyspaces, t.Keyspace) {
				made.Keyspaces = append(made.Keyspaces, t.Keyspace)
			}
		}
	}
	// A snapshot of everything is a checkpoint of the engine; one of some tables links their files only.
	if err := v.makeLocked(made, ids, len(a.Keyspaces) == 0); err != nil {
		return out, err
	}
	out, err = v.read(a.Tag)
	// A snapshot of a node that has lost data is made nevertheless, and says what is missing.
	if out.Lacks = lacking(v.engine.Lost(), v.engine.Corruptions(),
		v.catalog.cluster.Metadata().Schema); len(out.Lacks) > 0 {
		v.log.Warn("snapshot is incomplete: this node lost data that is not repaired yet", "tag", a.Tag, "lacks",
			out.Lacks)
	}
	return out, err
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

// makeLocked makes a snapshot under a name that begins with a dot, and renames it when it is complete. The caller holds
// mu. all means a checkpoint of the whole engine; ids are used otherwise. After an error, no directory is left.
func (v *Snapshots) makeLocked(made snapshotJSON, ids []schema.StorageID, all bool) (err error) {
	temp := v.path(snapshotTemp + made.Tag)
	defer func() {
		if err != nil {
			// What is left of a failed snapshot is removed, or an operator would find it later.
			err = errors.Join(fmt.Errorf("node: make a snapshot: %w", err), os.RemoveAll(temp))
		}
	}()
	if err := os.RemoveAll(temp); err != nil { // left by an interrupted snapshot
		return err
	}
	// Only the user of the process may read a snapshot, as it contains all data.
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return err
	}
	// The files are hard links, so a snapshot takes no space until the originals are removed.
	data := filepath.Join(temp, "data")
	if all {
		err = v.engine.Checkpoint(data)
	} else {
		err = v.engine.CheckpointTables(data, ids)
	}
	if err != nil {
		return err
	}
	// The description follows the data, because it makes the snapshot valid.
	b, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, snapshotFile), append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, v.path(made.Tag))
}

// describe reads the description of a snapshot. A snapshot without a description is not one.
func (v *Snapshots) describe(tag string) (made snapshotJSON, err error) {
	path := filepath.Join(v.path(tag), snapshotFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return made, err
	}
	if err := json.Unmarshal(b, &made); err != nil {
		return made, fmt.Errorf("%s: %w", path, err)
	}
	return made, nil
}

// read returns a snapshot with its size. The size is the size of its files; the true size counts only files that no
// other directory has.
func (v *Snapshots) read(tag string) (control.Snapshot, error) {
	made, err := v.describe(tag)
	if err != nil {
		return control.Snapshot{}, err
	}
	dir := v.path(tag)
	// The directory is shown as an absolute path, because operators copy it.
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	s := control.Snapshot{Tag: tag, Directory: dir, Keyspaces: made.Keyspaces, Created: made.Created}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		// A file that only this snapshot has would free its size when the snapshot is removed.
		s.Size += info.Size()
		if linked(path, info) == 1 {
			s.TrueSize += info.Size()
		}
		return nil
	})
	return s, err
}

// List lists the snapshots. The list is empty if no snapshot was made yet.
func (v *Snapshots) List(context.Context, control.None, control.Report) (control.Snapshots, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.listLocked()
}

// listLocked lists the snapshots; the caller holds mu.
func (v *Snapshots) listLocked() (control.Snapshots, error) {
	out := control.Snapshots{Snapshots: []control.Snapshot{}}
	tags, err := v.tags()
	for _, tag := range tags {
		// A snapshot that cannot be read fails the whole list, because its operator should know.
		s, err := v.read(tag)
		if err != nil {
			return out, err
		}
		out.Snapshots = append(out.Snapshots, s)
	}
	return out, err
}

// tags returns the names of the snapshots. They are sorted, because the directory is.
func (v *Snapshots) tags() (tags []string, err error) {
	// A node that has made no snapshot has no directory.
	found, err := os.ReadDir(v.path(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, d := range found {
		// A name that begins with a dot is a snapshot that was not completed.
		if !strings.HasPrefix(d.Name(), ".") {
			tags = append(tags, d.Name())
		}
	}
	return tags, err
}

// Shown returns the tables of the snapshots for system_views. It has no sizes: the files of a snapshot contain
// several tables. A snapshot that cannot be read is omitted; cqld ctl listsnapshots reports the error.
func (v *Snapshots) Shown() []system.Snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	tags, err := v.tags()
	// Errors are not reported here: the virtual table would be empty instead.
	if err != nil {
		return nil
	}
	var out []system.Snapshot
	for _, tag := range tags {
		made, err := v.describe(tag)
		if err != nil {
			continue
		}
		for _, t := range made.Tables {
			out = append(out, system.Snapshot{Name: tag, Keyspace: t.Keyspace, Table: t.Table, Created: made.Created})
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
	v.mu.Lock()
	defer v.mu.Unlock()
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
		if err := os.RemoveAll(v.path(s.Tag)); err != nil {
			return out, err
		}
		out.Snapshots = append(out.Snapshots, s)
	}
	// A tag that does not exist is an error, because an operator has named it.
	if !a.All && len(out.Snapshots) == 0 {
		return out, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("snapshot %s does not exist", a.Tag)}
	}
	return out, nil
}
