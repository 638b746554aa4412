package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/schema"
)

// FileName is the name of the manifest in the directory of a snapshot, and in its directory of data.
const FileName = "manifest.json"

// DataDir is the name of the directory of a snapshot that contains the files of the storage engine.
const DataDir = "data"

// Format is the version of manifests. It grows with every change that an older reader would misunderstand.
const Format = 1

// manifestBytesMax bounds a manifest that is read: 100,000 tables and files need less.
const manifestBytesMax = 256 << 20

// Manifest describes a snapshot completely. Apart from the snapshot, it needs nothing to be understood.
type Manifest struct {
	Name string `json:"name"`
	// Reason is Manual, or why the node made the snapshot by itself.
	Reason  Reason    `json:"reason"`
	Created time.Time `json:"created"`
	// HybridTime is the time of the node's hybrid clock in microseconds: rows that the node stored before have smaller
	// timestamps, unless a client chose them.
	HybridTime int64      `json:"hybrid_time"`
	Expires    *time.Time `json:"expires,omitempty"` // the node removes the snapshot then; nil means never
	Build      string     `json:"cqld"`
	// StorageFormat is the version of the storage engine's files.
	StorageFormat int      `json:"storage_format"`
	Cluster       Cluster  `json:"cluster"`
	Node          Node     `json:"node"`
	Epoch         uint64   `json:"epoch"`    // of the metadata
	Complete      bool     `json:"complete"` // it contains all tables that the node stores
	Lacks         []string `json:"lacks,omitempty"`
	// Keyspaces and Tables are in the order in which their statements can be executed.
	Keyspaces []Keyspace `json:"keyspaces"`
	Tables    []Table    `json:"tables"`
	Files     []File     `json:"files"`
}

// Reason says why a snapshot was made.
type Reason string

// The reasons of snapshots. Truncated and Dropped are also the first word of the names of such snapshots.
const (
	Manual    Reason = "manual"
	Truncated Reason = "truncated"
	Dropped   Reason = "dropped"
)

// Cluster identifies a cluster. ID is derived from a secret that the cluster generates when it is created; it reveals
// nothing about the secret.
type Cluster struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// Node identifies the node of a snapshot, with its place in the ring at that time.
type Node struct {
	ID         string   `json:"id"` // its host id
	Address    string   `json:"address"`
	Datacenter string   `json:"datacenter"`
	Rack       string   `json:"rack"`
	Tokens     []string `json:"tokens"`
}

// Keyspace contains the statements that create a keyspace, its types, functions and aggregates, in this order. A system
// keyspace has no statements: each node creates it.
type Keyspace struct {
	Name       string   `json:"name"`
	Statements []string `json:"statements,omitempty"`
}

// Table is a table of a snapshot.
type Table struct {
	Keyspace string `json:"keyspace"`
	Name     string `json:"name"`
	ID       string `json:"id"`
	// StorageID is the number of the table in the files. It finds the rows of the table.
	StorageID schema.StorageID `json:"storage_id"`
	// Create is empty for a system table.
	Create string `json:"create,omitempty"`
	// Columns are the stored columns in key order. Rows have their numbers, which a table that is created with the same
	// statement need not have.
	Columns []Column  `json:"columns,omitempty"`
	Indexes []Element `json:"indexes,omitempty"`
	Views   []Element `json:"views,omitempty"`
}

// Element is an index or a materialized view of a table. It has no data of its own that a snapshot would need: it is
// built again from the table.
type Element struct {
	Name   string `json:"name"`
	Create string `json:"create"`
}

// File is a file of DataDir. CRC32C is the checksum of its content with Castagnoli's polynomial; nil means that it was
// not computed.
type File struct {
	Name   string  `json:"name"`
	Size   int64   `json:"size"`
	CRC32C *uint32 `json:"crc32c,omitempty"`
}

// envelope is the content of the file. CRC32C is the checksum of Snapshot without white space.
type envelope struct {
	Format   int             `json:"format"`
	CRC32C   uint32          `json:"crc32c"`
	Snapshot json.RawMessage `json:"snapshot"`
}

// UnknownFormat is the error for a manifest of another version.
type UnknownFormat struct{ Format int }

// Error implements error.
func (u *UnknownFormat) Error() string {
	return fmt.Sprintf("the manifest has format %d, this cqld reads format %d: use the version of cqld that made the "+
		"snapshot", u.Format, Format)
}

// castagnoli returns the table of CRC-32C, which processors compute in hardware.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Encode returns the manifest as the content of a file.
func (m *Manifest) Encode() ([]byte, error) {
	content, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	// Operators read the file, so it is indented; the checksum ignores white space.
	out, err := json.MarshalIndent(envelope{Format, crc32.Checksum(content, castagnoli()), content}, "", "  ")
	return append(out, '\n'), err
}

// Decode reads the content of a file. It returns *UnknownFormat for another version, and refuses a manifest that was
// changed.
func Decode(b []byte) (*Manifest, error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("not a manifest: %w", err)
	}
	// The other fields have no meaning in another version.
	if e.Format != Format {
		return nil, &UnknownFormat{e.Format}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, e.Snapshot); err != nil {
		return nil, fmt.Errorf("not a manifest: %w", err)
	}
	if crc32.Checksum(compact.Bytes(), castagnoli()) != e.CRC32C {
		return nil, errors.New("the checksum of the manifest is wrong: it was damaged or changed")
	}
	m := new(Manifest)
	// A later version may add fields that this one can ignore without a new format.
	if err := json.Unmarshal(compact.Bytes(), m); err != nil {
		return nil, fmt.Errorf("not a manifest: %w", err)
	}
	return m, m.validate()
}

// validate refuses names of files that would lead out of the directory of a snapshot, and files that are listed twice.
func (m *Manifest) validate() error {
	seen := map[string]bool{}
	for _, f := range m.Files {
		if f.Name == "" || f.Name == "." || f.Name == ".." || strings.ContainsAny(f.Name, "/\\\x00") || seen[f.Name] ||
			f.Size < 0 {
			return fmt.Errorf("not a manifest: %q is not a valid name of a file, or it is listed twice", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// Table returns the table with a name, or nil.
func (m *Manifest) Table(keyspace, name string) *Table {
	for i := range m.Tables {
		if t := &m.Tables[i]; t.Keyspace == keyspace && t.Name == name {
			return t
		}
	}
	return nil
}

// Read reads the manifest of a directory. The error names the file; it is fs.ErrNotExist if there is none.
func Read(disk vfs.FS, dir string) (*Manifest, error) {
	path := disk.PathJoin(dir, FileName)
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := readFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// readFile reads a manifest, and closes its file.
func readFile(f vfs.File) (*Manifest, error) {
	b, err := io.ReadAll(io.LimitReader(f, manifestBytesMax))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return Decode(b)
}
