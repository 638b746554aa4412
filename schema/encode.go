package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"cqld/ring"
	"cqld/types"
)

// formatVersion is the version of the encodings of Schema and Change. A decoder accepts its own version and all older
// ones.
const formatVersion = 1

// ErrFormat is the error for bytes that do not encode a schema or change (errors.Is).
var ErrFormat = errors.New("schema: not an encoded schema or change")

type encodedSchema struct {
	Format      int
	NextStorage StorageID
	Keyspaces   []encodedKeyspace
}

type encodedKeyspace struct {
	Name          string
	Replication   ring.Replication
	DurableWrites bool
	Extensions    map[string][]byte  `json:",omitempty"`
	Comments      map[string]string  `json:",omitempty"`
	Labels        map[string]string  `json:",omitempty"` // security labels
	Types         []string           `json:",omitempty"` // classes
	Tables        []encodedTable     `json:",omitempty"`
	Functions     []encodedFunction  `json:",omitempty"`
	Aggregates    []encodedAggregate `json:",omitempty"`
}

type encodedTable struct {
	ID         UUID
	StorageID  StorageID
	Name       string
	Columns    []encodedColumn
	Dropped    []encodedColumn `json:",omitempty"`
	NextColumn ColumnID
	Options    Options
	View       *View          `json:",omitempty"`
	Indexes    []encodedIndex `json:",omitempty"`
	Compact    Compact        `json:",omitempty"`
}

type encodedColumn struct {
	ID            ColumnID
	Name          string
	Kind          ColumnKind
	Position      int
	Desc          bool        `json:",omitempty"`
	Type          string      // class
	DroppedMicros int64       `json:",omitempty"`
	Micros        int64       `json:",omitempty"` // of a dropped column
	Mask          *Mask       `json:",omitempty"`
	Attributes    *Attributes `json:",omitempty"`
}

type encodedIndex struct {
	ID      StorageID
	Name    string
	Class   IndexClass
	Column  ColumnID
	Target  IndexTarget
	Options map[string]string `json:",omitempty"`
}

// Encode encodes the schema. Equal schemas have equal encodings. Keyspaces that the program itself defines (the local
// and virtual system keyspaces) are omitted: they may differ between versions.
func Encode(s *Schema) []byte {
	e := encodedSchema{Format: formatVersion, NextStorage: s.nextStorage}
	for _, name := range s.KeyspaceNames() {
		if !IsLocalSystem(name) && !IsVirtualSystem(name) {
			e.Keyspaces = append(e.Keyspaces, encodeKeyspace(s.keyspaces[name]))
		}
	}
	return marshal(e)
}

// marshal encodes the types of this file. It cannot fail, because they contain no functions, cycles or NaN.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("schema: encode %T: %v", v, err))
	}
	return b
}

func encodeKeyspace(k *Keyspace) encodedKeyspace {
	e := encodedKeyspace{Name: k.Name, Replication: k.Replication, DurableWrites: k.DurableWrites,
		Extensions: k.Extensions,
		Comments:   k.comments, Labels: k.labels}
	for _, name := range k.TypeNames() {
		e.Types = append(e.Types, k.types[name].DeclaredClass())
	}
	for _, name := range k.allNames() {
		e.Tables = append(e.Tables, encodeTable(k.tables[name]))
	}
	encodeFunctions(&e, k)
	return e
}

func encodeTable(t *Table) encodedTable {
	e := encodedTable{ID: t.ID, StorageID: t.StorageID, Name: t.Name, NextColumn: t.NextColumn, Options: t.Options,
		Compact: t.Compact, View: t.View}
	for _, c := range t.stored {
		e.Columns = append(e.Columns, encodeColumn(c))
	}
	for i := range t.Dropped {
		d := encodeColumn(&t.Dropped[i].Column)
		d.Micros = t.Dropped[i].Micros
		e.Dropped = append(e.Dropped, d)
	}
	for _, ix := range t.indexes {
		e.Indexes = append(e.Indexes, encodedIndex{ID: ix.ID, Name: ix.Name, Class: ix.Class, Column: ix.Column,
			Target: ix.Target, Options: ix.Options})
	}
	return e
}

func encodeColumn(c *Column) encodedColumn {
	return encodedColumn{ID: c.ID, Name: c.Name, Kind: c.Kind, Position: c.Position, Desc: c.Desc,
		Type: c.Type.DeclaredClass(), DroppedMicros: c.DroppedMicros, Mask: c.Mask, Attributes: c.Attributes}
}

// Decode decodes the output of Encode and adds the keyspaces that the program itself defines (Own). The replicated
// system keyspaces are the encoded ones, even if this program would create a cluster with different ones. Errors are
// ErrFormat.
func Decode(b []byte) (*Schema, error) {
	var e encodedSchema
	if err := unmarshal(b, &e); err != nil {
		return nil, err
	}
	if err := checkFormat(e.Format); err != nil {
		return nil, err
	}
	keyspaces := map[string]*Keyspace{}
	ids := map[StorageID]bool{}
	for i := range e.Keyspaces {
		k, err := decodeKeyspace(&e.Keyspaces[i])
		if err != nil {
			return nil, err
		}
		if keyspaces[k.Name] != nil || IsLocalSystem(k.Name) || IsVirtualSystem(k.Name) {
			return nil, fmt.Errorf("%w: keyspace %q is not allowed", ErrFormat, k.Name)
		}
		for _, t := range k.tables {
			own := []StorageID{t.StorageID}
			for _, ix := range t.indexes {
				own = append(own, ix.ID)
			}
			for _, id := range own {
				if ids[id] || id >= max(e.NextStorage, FirstStorageID) {
					return nil, fmt.Errorf("%w: storage id %d of %s.%s", ErrFormat, id, k.Name, t.Name)
				}
				ids[id] = true
			}
		}
		keyspaces[k.Name] = k
	}
	return build(keyspaces, max(e.NextStorage, FirstStorageID)).withOwn(), nil
}

func unmarshal(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if d.More() {
		return fmt.Errorf("%w: trailing bytes", ErrFormat)
	}
	return nil
}

func checkFormat(version int) error {
	if version < 1 || version > formatVersion {
		return fmt.Errorf("%w: version %d is newer than %d", ErrFormat, version, formatVersion)
	}
	return nil
}

func decodeKeyspace(e *encodedKeyspace) (*Keyspace, error) {
	k := NewKeyspace(e.Name, e.Replication, e.DurableWrites)
	k.Extensions, k.comments, k.labels = e.Extensions, e.Comments, e.Labels
	for _, class := range e.Types {
		t, err := decodeType(class)
		if err != nil {
			return nil, err
		}
		if t.Kind() != types.UDT || t.Frozen() {
			return nil, fmt.Errorf("%w: %q is not a user-defined type", ErrFormat, class)
		}
		k.types[t.UDTName()] = t
	}
	for i := range e.Tables {
		t, err := decodeTable(&e.Tables[i], k)
		if err != nil {
			return nil, err
		}
		if k.tables[t.Name] != nil {
			return nil, fmt.Errorf("%w: duplicate table %q", ErrFormat, t.Name)
		}
		k.tables[t.Name] = t
	}
	if err := decodeFunctions(e, k); err != nil {
		return nil, err
	}
	if err := k.checkViews(); err != nil {
		return nil, err
	}
	k.link()
	return k, nil
}

func decodeType(class string) (*types.Type, error) {
	t, err := types.ParseDeclaredClass(class)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return t, nil
}

func decodeTable(e *encodedTable, k *Keyspace) (*Table, error) {
	t := &Table{ID: e.ID, StorageID: e.StorageID, Keyspace: k.Name, Name: e.Name,
		NextColumn: e.NextColumn, Options: e.Options, Compact: e.Compact, Replication: k.Replication, View: e.View}
	names, ids := map[string]bool{}, map[ColumnID]bool{}
	for i := range e.Columns {
		c, err := decodeColumn(&e.Columns[i], t)
		if err != nil {
			return nil, err
		}
		if names[c.Name] || ids[c.ID] {
			return nil, fmt.Errorf("%w: duplicate column %q of %s.%s", ErrFormat, c.Name, k.Name, t.Name)
		}
		names[c.Name], ids[c.ID] = true, true
		if err := t.place(c); err != nil {
			return nil, err
		}
	}
	for i := range e.Dropped {
		c, err := decodeColumn(&e.Dropped[i], t)
		if err != nil {
			return nil, err
		}
		t.Dropped = append(t.Dropped, DroppedColumn{Column: *c, Micros: e.Dropped[i].Micros})
	}
	if len(t.PartitionKey) == 0 {
		return nil, fmt.Errorf("%w: %s.%s has no partition key", ErrFormat, k.Name, t.Name)
	}
	for i := range e.Indexes {
		ix, err := decodeIndex(&e.Indexes[i])
		if err != nil {
			return nil, err
		}
		if !ids[ix.Column] || t.Index(ix.Name) != nil {
			return nil, fmt.Errorf("%w: index %q of %s.%s", ErrFormat, ix.Name, k.Name, t.Name)
		}
		t.indexes = append(t.indexes, ix)
	}
	return t.Seal(), nil
}

func decodeIndex(e *encodedIndex) (*Index, error) {
	if err := checkIndexEnums(e.Class, e.Target); err != nil {
		return nil, err
	}
	ix := &Index{ID: e.ID, Name: e.Name, Kind: e.Class.kind(), Class: e.Class, Column: e.Column, Target: e.Target,
		Options: e.Options}
	return ix, nil
}

func checkIndexEnums(class IndexClass, target IndexTarget) error {
	if class < LegacyIndex || class > SASI || target < IndexSimple || target > IndexFull {
		return fmt.Errorf("%w: index of class %d with target %d", ErrFormat, class, target)
	}
	return nil
}

func decodeColumn(e *encodedColumn, t *Table) (*Column, error) {
	if e.ID >= t.NextColumn {
		return nil, fmt.Errorf("%w: column id %d of %s.%s", ErrFormat, e.ID, t.Keyspace, t.Name)
	}
	typ, err := decodeType(e.Type)
	if err != nil {
		return nil, err
	}
	if err := checkMask(e.Mask); err != nil {
		return nil, err
	}
	return &Column{ID: e.ID, Name: e.Name, Kind: e.Kind, Position: e.Position, Desc: e.Desc, Type: typ,
		DroppedMicros: e.DroppedMicros, Mask: e.Mask, Attributes: e.Attributes}, nil
}

// place puts a decoded column into its list. Key columns arrive in key order.
func (t *Table) place(c *Column) error {
	position := -1
	switch c.Kind {
	case PartitionKey:
		position = len(t.PartitionKey)
		t.PartitionKey = append(t.PartitionKey, c)
	case Clustering:
		position = len(t.Clustering)
		t.Clustering = append(t.Clustering, c)
	case Static:
		t.Statics = append(t.Statics, c)
	case Regular:
		t.Regulars = append(t.Regulars, c)
	default:
		return fmt.Errorf("%w: column %q has no kind", ErrFormat, c.Name)
	}
	if c.Position != position {
		return fmt.Errorf("%w: column %q of %s.%s at position %d", ErrFormat, c.Name, t.Keyspace, t.Name, c.Position)
	}
	return nil
}

// writeHeader writes the part of the content on which the version depends besides the keyspaces.
func (s *Schema) writeHeader(h io.Writer) {
	_, _ = fmt.Fprintf(h, "cqld schema %d %d", formatVersion, s.nextStorage) // a hash returns no error
}
