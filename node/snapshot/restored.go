package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/schema"
)

// checkedName is the name of the manifest of restored data whose files were found complete. The engine may have changed
// the files since, so that only the rest of the manifest is compared from then on.
//
//	copied ── CheckFiles ──▶ manifest.checked.json ── Restored, Fits, Accept ──▶ no manifest: data of the node
const checkedName = "manifest.checked.json"

// problemsShown bounds the files and tables that an error names.
const problemsShown = 5

// CheckFiles checks the data in a directory of the storage engine, before the engine opens it, if it was copied from a
// snapshot: all files of the snapshot must be there, with their sizes, and no others. Directories without a manifest
// are not checked.
func CheckFiles(disk vfs.FS, data string) error {
	m, err := Read(disk, data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restored data: %w", err)
	}
	sizes := make([]File, len(m.Files))
	for i, f := range m.Files {
		sizes[i] = File{Name: f.Name, Size: f.Size}
		// The engine finds damage in other files, but takes a damaged end of its log for a crash.
		if strings.HasSuffix(f.Name, ".log") {
			sizes[i].CRC32C = f.CRC32C
		}
	}
	problems, err := compare(context.Background(), disk, data, sizes)
	if err != nil {
		return fmt.Errorf("restored data: %w", err)
	}
	if len(problems) > 0 {
		return fmt.Errorf("the data in %s is not a complete copy of snapshot %s: %s: remove %[1]s and copy the "+
			"directory %[4]s of the snapshot again", data, m.Name, shorten(problems, "; "), DataDir)
	}
	if err := disk.Rename(disk.PathJoin(data, FileName), disk.PathJoin(data, checkedName)); err != nil {
		return err
	}
	return SyncDir(disk, data)
}

// shorten joins problems, and counts the omitted ones.
func shorten(texts []string, separator string) string {
	if more := len(texts) - problemsShown; more > 0 {
		return strings.Join(texts[:problemsShown], separator) + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(texts, separator)
}

// Restored returns the manifest of data that was copied from a snapshot and has not been accepted yet. It is nil for
// other data.
func Restored(disk vfs.FS, data string) (*Manifest, error) {
	f, err := disk.Open(disk.PathJoin(data, checkedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := readFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", disk.PathJoin(data, checkedName), err)
	}
	return m, nil
}

// Accept makes restored data the data of the node.
func Accept(disk vfs.FS, data string) error {
	if err := disk.Remove(disk.PathJoin(data, checkedName)); err != nil {
		return err
	}
	return SyncDir(disk, data)
}

// FitsNode refuses data of another node. data is the directory, for the error.
func (m *Manifest) FitsNode(data, node string) error {
	if m.Node.ID == node {
		return nil
	}
	return fmt.Errorf("the data in %s was restored from snapshot %s of node %s (%s) of cluster %q, and this node is "+
		"%s: a snapshot can be restored by its own node only, which still has its metadata. Put the data of this node "+
		"back, or, if it lost its data or its metadata, remove its data directory and start it with --replace",
		data, m.Name, m.Node.ID, m.Node.Address, m.Cluster.Name, node)
}

// Fits refuses data that the metadata of this node does not describe: of another cluster, with tables that do not
// exist or have another identity, or without tables that exist. Otherwise rows would disappear without an error: the
// rows of a table are found by its number, and a table that the snapshot does not contain would be empty. Tables that
// were dropped after the snapshot fit: no client can read them, and the node drops their rows again when it serves.
func (m *Manifest) Fits(data, cluster string, catalog *schema.Schema) error {
	if m.Cluster.ID != cluster {
		return fmt.Errorf("the data in %s was restored from snapshot %s of another cluster (%q): put the data of this "+
			"node back", data, m.Name, m.Cluster.Name)
	}
	restored := map[schema.StorageID]bool{}
	var problems []string
	for _, t := range m.Tables {
		restored[t.StorageID] = true
		name := t.Keyspace + "." + t.Name
		now := catalog.Table(t.Keyspace, t.Name)
		switch {
		// A system table that does not exist is one of a later version, whose rows nothing reads.
		case now == nil && (catalog.Dropped(t.StorageID) || schema.IsSystem(t.Keyspace)):
		// The metadata does not know the number yet, so it is older than the snapshot.
		case now == nil && catalog.TableByStorage(t.StorageID) == nil:
			problems = append(problems, "the metadata does not know table "+name)
		case now != nil && now.ID.String() == t.ID && now.StorageID != t.StorageID:
			problems = append(problems, "table "+name+" was truncated after the snapshot")
		// A table cannot be renamed, so its number decides.
		case now == nil || now.StorageID != t.StorageID || now.ID.String() != t.ID:
			problems = append(problems, "table "+name+" was dropped and created again after the snapshot: its rows "+
				"there belong to another table")
		}
	}
	// Tables of users have the greater numbers, and come first: an error names the first few.
	for _, id := range slices.Backward(catalog.StorageIDs()) {
		t := catalog.TableByStorage(id)
		// A complete snapshot lacks a system table only if its cqld did not have the table yet.
		// Dropped tables that can be restored are repaired from the other nodes.
		later := m.Complete && schema.IsSystem(t.Keyspace)
		if !t.Virtual && t.Retention == nil && !restored[id] && !later {
			problems = append(problems, "the snapshot does not contain table "+t.Keyspace+"."+t.Name)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("the data in %s was restored from snapshot %s, which does not fit the schema of the cluster: "+
		"%s. Put the previous data of this node back. Before this snapshot can be restored, the tables that it does "+
		"not contain must be dropped",
		data, m.Name, shorten(problems, "; "))
}
