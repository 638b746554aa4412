package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/auth"
	"cqld/ring"
	"cqld/schema"
)

// Format is the version of manifests and of the layout. It grows with every change that an older reader would
// misunderstand.
const Format = 1

// encryptedFormat is the version of the layout of an encrypted store. Readers of Format refuse it.
const encryptedFormat = 2

// Manifest describes a backup completely.
type Manifest struct {
	Name    string    `json:"name"`
	Job     string    `json:"job"`     // whose attempt has made it
	Created time.Time `json:"created"` // when this attempt was started
	Ended   time.Time `json:"ended"`
	// HybridTime is a time (µs) of the cluster's hybrid clock: the backup contains each write that was acknowledged
	// before.
	HybridTime int64 `json:"hybrid_time"`
	// Build is the version of cqld, and StorageFormat the version of the storage engine's files.
	Build         string `json:"cqld"`
	StorageFormat int    `json:"storage_format"`
	Cluster       string `json:"cluster"`
	ClusterID     string `json:"cluster_id"`
	// Scope names the keyspaces and tables (KEYSPACE.TABLE) of the backup. If it is empty, the backup is of everything.
	Scope []string `json:"scope,omitempty"`
	// Catalog is the schema (schema.Encode), and Roles are the roles (auth.Encode) if the backup is of everything.
	Catalog Object  `json:"catalog"`
	Roles   *Object `json:"roles,omitempty"`
	// Members are the nodes of the ring, which determine the replicas of each row.
	Members []Member `json:"members"`
	Shares  []Share  `json:"shares"`
}

// Object is a sequence of bytes in a store, identified by its content.
type Object struct {
	SHA256 string `json:"sha256"` // in hexadecimal digits
	Size   int64  `json:"size"`
}

// Member is a node of the ring at the time of the backup. Data center and rack determine, with the tokens, which rows
// it replicated.
type Member struct {
	ID         ring.NodeID  `json:"id"`
	Host       string       `json:"host"`
	Datacenter string       `json:"datacenter"`
	Rack       string       `json:"rack"`
	Tokens     []ring.Token `json:"tokens"`
}

// Share is the part of a backup that one node has stored: the files of a checkpoint of its storage engine.
type Share struct {
	Node ring.NodeID `json:"node"`
	Host string      `json:"host"`
	// Lacks names data that the node had lost.
	Lacks []string `json:"lacks,omitempty"`
	Files []File   `json:"files"`
	// Stored is how many bytes of the files the store did not have before.
	Stored int64 `json:"stored"`
}

// File is a file of a share. Several files, also of several nodes and backups, may be one object.
type File struct {
	Name string `json:"name"` // in the directory of the storage engine
	Object
}

// envelope is the content of a file of the store. SHA256 is of Content without white space.
type envelope struct {
	Format  int             `json:"format"`
	SHA256  string          `json:"sha256"`
	Content json.RawMessage `json:"content"`
}

// UnknownFormat is the error for a file of another version.
type UnknownFormat struct{ Format int }

// Error implements error.
func (u *UnknownFormat) Error() string {
	return fmt.Sprintf("it has format %d, and this cqld reads formats up to %d: use the version of cqld that wrote it",
		u.Format, encryptedFormat)
}

// encode returns v as the content of a file, one line of JSON. Operators may read and indent it: the checksum is of the
// compact form.
func encode(v any) ([]byte, error) { return encodeFormat(v, Format) }

// encodeFormat is encode for a file of a format.
func encodeFormat(v any, format int) ([]byte, error) {
	content, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(envelope{format, sumOf(content), content})
	return append(b, '\n'), err
}

// decode reads the content of a file into v. It returns *UnknownFormat for another version, and refuses a content that
// was changed.
func decode(b []byte, v any) error {
	_, err := decodeFormats(b, v, Format)
	return err
}

// decodeFormats is decode for a file of one of several formats, which it returns.
func decodeFormats(b []byte, v any, formats ...int) (format int, err error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return 0, fmt.Errorf("not a file of a backup: %w", err)
	}
	// The other fields have no meaning in another version.
	if !slices.Contains(formats, e.Format) {
		return 0, &UnknownFormat{e.Format}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, e.Content); err != nil {
		return 0, fmt.Errorf("not a file of a backup: %w", err)
	}
	if sumOf(compact.Bytes()) != e.SHA256 {
		return 0, errors.New("its checksum is wrong: it was damaged or changed")
	}
	d := json.NewDecoder(bytes.NewReader(compact.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return 0, fmt.Errorf("not a file of a backup: %w", err)
	}
	return e.Format, nil
}

// sumOf returns the SHA-256 of b in hexadecimal digits.
func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// DecodeManifest reads a manifest, and refuses one whose names could lead out of the store or of the directory to which
// its files are restored.
func DecodeManifest(b []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := decode(b, m); err != nil {
		return nil, err
	}
	return m, m.check()
}

// check refuses a manifest that contradicts itself.
func (m *Manifest) check() error {
	if err := CheckName(m.Name); err != nil {
		return err
	}
	objects := []Object{m.Catalog}
	if m.Roles != nil {
		objects = append(objects, *m.Roles)
	}
	members := map[ring.NodeID]bool{}
	for _, n := range m.Members {
		if members[n.ID] {
			return fmt.Errorf("it lists node %d twice", n.ID)
		}
		members[n.ID] = true
	}
	shares := map[ring.NodeID]bool{}
	for i := range m.Shares {
		s := &m.Shares[i]
		if !members[s.Node] || shares[s.Node] {
			return fmt.Errorf("it lists files of node %d, which is no member or is listed twice", s.Node)
		}
		shares[s.Node] = true
		if err := s.check(); err != nil {
			return err
		}
	}
	// A backup with the files of some nodes only is not one.
	if len(shares) != len(members) {
		return fmt.Errorf("it lists files of %d nodes; the ring had %d", len(shares), len(members))
	}
	for _, o := range objects {
		if err := o.check(); err != nil {
			return err
		}
	}
	return nil
}

// check refuses names of files that are not names in one directory, and files that are listed twice.
func (s *Share) check() error {
	names := map[string]bool{}
	for _, f := range s.Files {
		bad := f.Name == "" || f.Name == "." || f.Name == ".." || len(f.Name) > nameBytesMax ||
			strings.ContainsAny(f.Name, "/\\\x00")
		if bad || names[f.Name] {
			return fmt.Errorf("%.50q is not a valid name of a file, or it is listed twice", f.Name)
		}
		names[f.Name] = true
		if err := f.Object.check(); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a hash that is none: it is part of a path.
func (o Object) check() error {
	if b, err := hex.DecodeString(o.SHA256); err != nil || len(b) != sha256.Size || strings.ToLower(o.SHA256) !=
		o.SHA256 || o.Size < 0 {
		return fmt.Errorf("%.70q is not a valid object", o.SHA256)
	}
	return nil
}

// CheckName refuses what cannot be the name of a backup. A name is part of a path: it must not contain a slash or begin
// with a dot.
func CheckName(name string) error {
	bad := strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '_' && r != '.' && r != '-'
	})
	if bad || name == "" || len(name) > backupNameMax || name[0] == '.' || name[0] == '-' {
		return fmt.Errorf("%.50q is not a valid name of a backup: use only letters, digits and _ . -", name)
	}
	return nil
}

// Objects returns the objects of the backup, each once, in the order of their hashes. The order is the same on every
// node, which divides them by it.
func (m *Manifest) Objects() []Object {
	all := []Object{m.Catalog}
	if m.Roles != nil {
		all = append(all, *m.Roles)
	}
	for _, s := range m.Shares {
		for _, f := range s.Files {
			all = append(all, f.Object)
		}
	}
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(a.SHA256, b.SHA256) })
	return slices.CompactFunc(all, func(a, b Object) bool { return a.SHA256 == b.SHA256 })
}

// Bytes returns the size of the backup, and how much of it the store did not have before.
func (m *Manifest) Bytes() (all, stored int64) {
	for _, o := range m.Objects() {
		all += o.Size
	}
	for _, s := range m.Shares {
		stored += s.Stored
	}
	return all, stored
}

// ShareOf returns the index of the share of a node, or -1.
func (m *Manifest) ShareOf(host string) int {
	return slices.IndexFunc(m.Shares, func(s Share) bool { return s.Host == host })
}

// Bytes returns the size of the files.
func (s *Share) Bytes() (n int64) {
	for _, f := range s.Files {
		n += f.Size
	}
	return n
}

// TopologyOf returns the ring of a backup or a moment, from which the replicas of each row at that time follow. Its
// epoch has no meaning in the ring that is restored to.
func TopologyOf(members []Member) (*ring.Topology, error) {
	var nodes []*ring.Node
	for _, n := range members {
		nodes = append(nodes, &ring.Node{ID: n.ID, Datacenter: n.Datacenter, Rack: n.Rack, State: ring.Normal,
			Tokens: n.Tokens})
	}
	// It returns an error for what would break an invariant of rings.
	return ring.RestoreTopology(1, 1, nodes, nil)
}

// MembersOf returns the members of a ring that own tokens. While the ring changes, these are the owners before the
// change: until it ends, each request also counts their answers.
func MembersOf(t *ring.Topology) (out []Member) {
	for _, n := range t.Nodes() {
		if n.State == ring.Joining {
			continue
		}
		out = append(out, Member{ID: n.ID, Host: n.Host.String(), Datacenter: n.Datacenter, Rack: n.Rack,
			Tokens: n.Tokens})
	}
	return out
}

// Contents are the schema and the roles of a backup.
type Contents struct {
	Schema *schema.Schema
	Roles  *auth.Directory // nil if the backup is not of everything
}
