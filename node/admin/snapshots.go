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

// Snapshots makes, lists and removes snapshots.
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
const (
	snapshotsDir = "snapshots"
	snapshotFile = "snapshot.json"
	snapshotTemp = ".making-"
)

// snapshotJSON is the content of snapshot.json.
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

// snapshotTable is a table of a snapshot, with its number in the files.
type snapshotTable struct {
	Keyspace, Table string
	ID              string
	Storage         schema.StorageID
}

func (v *Snapshots) path(name string) string {
	return filepath.Join(v.dir, snapshotsDir, name)
}

// tagPattern matches valid tags. A tag is the name of a directory.
func tagPattern() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$`) }

// Take makes a snapshot.
func (v *Snapshots) Take(_ context.Context, a control.SnapshotArgs, _ control.Report) (out control.Snapshot,
	err error) {
	now := time.Now().UTC()
	if a.Tag == "" {
		a.Tag = strconv.FormatInt(now.UnixMilli(), 10)
	}
	if !tagPattern().MatchString(a.Tag) {
		return out, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("%q is not a valid snapshot name: use only letters, digits and _ . : -", a.Tag)}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := os.Stat(v.path(a.Tag)); err == nil {
		return out, &control.Error{Code: control.Refused, Message: fmt.Sprintf("snapshot %s already exists", a.Tag)}
	}
	made := snapshotJSON{Tag: a.Tag, Created: now, Host: v.catalog.cluster.HostID().String(), Cluster: v.name,
		Build: control.Build(),
		Epoch: v.catalog.cluster.Metadata().Epoch}
	var ids []schema.StorageID
	for _, keyspace := range keyspacesOr(a.Keyspaces, "") {
		tables, err := v.catalog.Tables(control.TablesArgs{Keyspace: keyspace})
		if err != nil {
			return out, err
		}
		for _, t := range tables {
			ids = append(ids, t.StorageID)
			made.Tables = append(made.Tables, snapshotTable{t.Keyspace, t.Name, t.ID.String(), t.StorageID})
			if !slices.Contains(made.Keyspaces, t.Keyspace) {
				made.Keyspaces = append(made.Keyspaces, t.Keyspace)
			}
		}
	}
	if err := v.makeLocked(made, ids, len(a.Keyspaces) == 0); err != nil {
		return out, err
	}
	out, err = v.read(a.Tag)
	if out.Lacks = lacking(v.engine.Lost(), v.engine.Corruptions(),
		v.catalog.cluster.Metadata().Schema); len(out.Lacks) > 0 {
		v.log.Warn("snapshot is incomplete: this node lost data that is not repaired yet", "tag", a.Tag, "lacks",
			out.Lacks)
	}
	return out, err
}

// lacking describes what a snapshot of this node cannot contain: ranges that were lost and not repaired yet, and
// detected corrupt files that were not taken out of service yet. Corrupt blocks that have not been read are not
// detected.
func lacking(lost []lost.Range, corrupt []database.CorruptionInfo, catalog *schema.Schema) (out []string) {
	for _, x := range lost {
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

func keyspacesOr(names []string, none string) []string {
	if len(names) == 0 {
		return []string{none}
	}
	return names
}

func (v *Snapshots) makeLocked(made snapshotJSON, ids []schema.StorageID, all bool) (err error) {
	temp := v.path(snapshotTemp + made.Tag)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("node: make a snapshot: %w", err), os.RemoveAll(temp))
		}
	}()
	if err := os.RemoveAll(temp); err != nil { // left by an interrupted snapshot
		return err
	}
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return err
	}
	data := filepath.Join(temp, "data")
	if all {
		err = v.engine.Checkpoint(data)
	} else {
		err = v.engine.CheckpointTables(data, ids)
	}
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, snapshotFile), append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, v.path(made.Tag))
}

// describe reads the description of a snapshot.
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

// read returns a snapshot with its size.
func (v *Snapshots) read(tag string) (control.Snapshot, error) {
	made, err := v.describe(tag)
	if err != nil {
		return control.Snapshot{}, err
	}
	dir := v.path(tag)
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
		s.Size += info.Size()
		if linked(path, info) == 1 {
			s.TrueSize += info.Size()
		}
		return nil
	})
	return s, err
}

// List lists the snapshots.
func (v *Snapshots) List(context.Context, control.None, control.Report) (control.Snapshots, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.listLocked()
}

func (v *Snapshots) listLocked() (control.Snapshots, error) {
	out := control.Snapshots{Snapshots: []control.Snapshot{}}
	tags, err := v.tags()
	for _, tag := range tags {
		s, err := v.read(tag)
		if err != nil {
			return out, err
		}
		out.Snapshots = append(out.Snapshots, s)
	}
	return out, err
}

// tags returns the names of the snapshots.
func (v *Snapshots) tags() (tags []string, err error) {
	found, err := os.ReadDir(v.path(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, d := range found {
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

// Clear removes snapshots and returns which.
func (v *Snapshots) Clear(_ context.Context, a control.ClearArgs, _ control.Report) (control.Snapshots, error) {
	out := control.Snapshots{Snapshots: []control.Snapshot{}}
	if a.All == (a.Tag != "") {
		return out, &control.Error{Code: control.Invalid, Message: "Specify snapshot name or --all"}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	all, err := v.listLocked()
	if err != nil {
		return out, err
	}
	for _, s := range all.Snapshots {
		if !a.All && s.Tag != a.Tag {
			continue
		}
		if err := os.RemoveAll(v.path(s.Tag)); err != nil {
			return out, err
		}
		out.Snapshots = append(out.Snapshots, s)
	}
	if !a.All && len(out.Snapshots) == 0 {
		return out, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("snapshot %s does not exist", a.Tag)}
	}
	return out, nil
}
