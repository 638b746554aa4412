package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"cqld/ring"
	"cqld/types"
)

// formatVersion is the version of the encodings of Schema and Change. A decoder accepts its own and all older versions.
// writeHeader includes it in the version hash, so changing it changes the version of every schema.
const formatVersion = 1

// ErrFormat is wrapped by the errors for bytes that do not encode a schema or change.
var ErrFormat = errors.New("schema: not an encoded schema or change")

// encodedSchema is a schema without the keyspaces that the program itself defines. The encoding is JSON. Unknown fields
// are refused, so an older version never drops data that it does not understand.
type encodedSchema struct {
	// Format is formatVersion of the program that wrote the encoding.
	Format int
	// NextStorage is stored because ids of dropped tables must not be reused, and no table shows them.
	NextStorage StorageID
	// Keyspaces are sorted by name.
	Keyspaces []encodedKeyspace
	// Dropped are the keyspaces that can be restored, by hidden name.
	Dropped []encodedKeyspace `json:",omitempty"`
}

// encodedKeyspace is a keyspace with its elements, each kind sorted by name or signature. Types are class names, which
// contain the fields of user-defined types.
type encodedKeyspace struct {
	Name          string
	Replication   ring.Replication
	DurableWrites bool
	// Extensions has no nil values.
	Extensions map[string][]byte `json:",omitempty"`
	// Comments and Labels are keyed by commentKey.
	Comments map[string]string `json:",omitempty"`
	Labels   map[string]string `json:",omitempty"` // security labels
	// Sorted by name. A class contains the types that it uses, so decoding does not depend on the order.
	Types      []string           `json:",omitempty"` // classes
	Tables     []encodedTable     `json:",omitempty"`
	Retained   []encodedTable     `json:",omitempty"` // in the order of their drops
	Functions  []encodedFunction  `json:",omitempty"`
	Aggregates []encodedAggregate `json:",omitempty"`
	// Name is then the name before the drop; Number and Retention are only set for dropped keyspaces.
	Number    StorageID  `json:",omitempty"`
	Retention *Retention `json:",omitempty"`
}

// encodedTable is a table, without the name of its keyspace. Columns are in the order of Table.stored: key columns
// first. New fields must be omitted when empty, so that digests of existing tables stay.
type encodedTable struct {
	ID UUID
	// StorageID is in the key of every row, so all nodes must agree on it.
	StorageID StorageID
	Name      string
	Columns   []encodedColumn
	// Dropped columns have the time of the drop in Micros.
	Dropped []encodedColumn `json:",omitempty"`
	// NextColumn exceeds all ids in Columns and Dropped, because ids of dropped columns are not reused for other names.
	NextColumn ColumnID
	Options    Options
	// View is nil for ordinary tables.
	View    *View          `json:",omitempty"`
	Indexes []encodedIndex `json:",omitempty"`
	Compact Compact        `json:",omitempty"`
	// Retention is only set for retained tables.
	Retention *Retention `json:",omitempty"`
}

// encodedColumn is a column or a dropped column.
type encodedColumn struct {
	// A dropped column and a column that was added again under its name have the same id.
	ID   ColumnID
	Name string
	Kind ColumnKind
	// Position is -1 for columns outside the key.
	Position int
	Desc     bool   `json:",omitempty"`
	Type     string // class
	// DroppedMicros is in µs since 1970; see Column.DroppedMicros.
	DroppedMicros int64       `json:",omitempty"`
	Micros        int64       `json:",omitempty"` // of a dropped column
	Until         int64       `json:",omitempty"` // of a dropped column that can be restored
	Declared      string      `json:",omitempty"` // its class, if it differs from Type
	Mask          *Mask       `json:",omitempty"`
	Attributes    *Attributes `json:",omitempty"`
}

// encodedIndex is an index. Kind is not encoded, because it follows from Class.
type encodedIndex struct {
	// ID comes from the counter of storage ids (NextStorage).
	ID      StorageID
	Name    string
	Class   IndexClass
	Column  ColumnID
	Target  IndexTarget
	Options map[string]string `json:",omitempty"`
}

// Encode encodes the schema. Equal schemas have equal encodings: lists are sorted, and JSON sorts maps. The local and
// virtual system keyspaces, which the program itself defines, are omitted, because they may differ between versions.
func Encode(s *Schema) []byte {
	e := encodedSchema{Format: formatVersion, NextStorage: s.nextStorage}
	for _, name := range s.KeyspaceNames() {
		if !IsLocalSystem(name) && !IsVirtualSystem(name) {
			e.Keyspaces = append(e.Keyspaces, encodeKeyspace(s.keyspaces[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.dropped)) {
		e.Dropped = append(e.Dropped, encodeKeyspace(s.dropped[name]))
	}
	return marshal(e)
}

// marshal encodes the types of this file. It cannot fail: they contain no functions, cycles or NaN.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("schema: encode %T: %v", v, err))
	}
	return b
}

// encodeKeyspace encodes a keyspace and its tables. link passes a copy without tables.
func encodeKeyspace(k *Keyspace) encodedKeyspace {
	e := encodedKeyspace{Name: k.Name, Replication: k.Replication.Definition(), DurableWrites: k.DurableWrites,
		Extensions: k.Extensions,
		Comments:   k.comments, Labels: k.labels}
	if d := k.Dropped; d != nil {
		e.Name, e.Number, e.Retention = d.Name, d.Number, &d.Retention
	}
	for _, name := range k.TypeNames() {
		// Declared classes preserve whether a type was declared as frozen.
		e.Types = append(e.Types, k.types[name].DeclaredClass())
	}
	for _, name := range k.allNames() {
		t := encodeTable(k.tables[name])
		t.Retention = nil // derived from the keyspace; the table itself has none
		e.Tables = append(e.Tables, t)
	}
	for _, t := range k.retained {
		e.Retained = append(e.Retained, encodeTable(t))
	}
	encodeFunctions(&e, k)
	return e
}

// encodeTable encodes a table. The table's digest is the hash of this encoding, so the order of fields must not change.
func encodeTable(t *Table) encodedTable {
	e := encodedTable{ID: t.ID, StorageID: t.StorageID, Name: t.Name, NextColumn: t.NextColumn, Options: t.Options,
		Compact: t.Compact, View: t.View, Retention: t.Retention}
	// stored includes hidden columns.
	for _, c := range t.stored {
		e.Columns = append(e.Columns, encodeColumn(c))
	}
	for i := range t.Dropped {
		d := encodeColumn(&t.Dropped[i].Column)
		d.Micros, d.Until = t.Dropped[i].Micros, t.Dropped[i].Until
		// Only user-defined types are expanded.
		if declared := t.Dropped[i].Declared; declared != nil && declared.DeclaredClass() != d.Type {
			d.Declared = declared.DeclaredClass()
		}
		e.Dropped = append(e.Dropped, d)
	}
	for _, ix := range t.indexes {
		e.Indexes = append(e.Indexes, encodedIndex{ID: ix.ID, Name: ix.Name, Class: ix.Class, Column: ix.Column,
			Target: ix.Target, Options: ix.Options})
	}
	return e
}

// encodeColumn encodes a column without Micros, which only dropped columns have.
func encodeColumn(c *Column) encodedColumn {
	return encodedColumn{ID: c.ID, Name: c.Name, Kind: c.Kind, Position: c.Position, Desc: c.Desc,
		Type: c.Type.DeclaredClass(), DroppedMicros: c.DroppedMicros, Mask: c.Mask, Attributes: c.Attributes}
}

// Decode decodes the output of Encode and adds the keyspaces that the program itself defines (Own). The replicated
// system keyspaces are taken from b, even if this version would define them differently in a new cluster. Errors are
// ErrFormat. The input may come from a file or another node, so Decode validates what other code relies on: unique
// numbers and ids, positions of key columns, columns of indexes, base tables of views, and functions of aggregates.
func Decode(b []byte) (*Schema, error) {
	var e encodedSchema
	if err := unmarshal(b, &e); err != nil {
		return nil, err
	}
	if err := checkFormat(e.Format); err != nil {
		return nil, err
	}
	keyspaces := map[string]*Keyspace{}
	// Storage ids of tables and indexes are unique in the schema.
	ids := map[StorageID]bool{}
	for i := range e.Keyspaces {
		k, err := e.decode(&e.Keyspaces[i], ids)
		if err != nil {
			return nil, err
		}
		if keyspaces[k.Name] != nil || k.Dropped != nil {
			return nil, fmt.Errorf("%w: keyspace %q is not allowed", ErrFormat, k.Name)
		}
		keyspaces[k.Name] = k
	}
	dropped := map[string]*Keyspace{}
	for i := range e.Dropped {
		k, err := e.decode(&e.Dropped[i], ids)
		if err != nil {
			return nil, err
		}
		if k.Dropped == nil || IsSystem(k.Dropped.Name) {
			return nil, fmt.Errorf("%w: dropped keyspace %q is not allowed", ErrFormat, k.Name)
		}
		dropped[k.Name] = k
	}
	// The program's own keyspaces are added last. Their ids are below FirstStorageID and not in the encoding.
	return build(keyspaces, dropped, max(e.NextStorage, FirstStorageID)).withOwn(), nil
}

// decode decodes a keyspace of e. ids contains the storage ids of earlier keyspaces; decode adds to it.
func (e *encodedSchema) decode(encoded *encodedKeyspace, ids map[StorageID]bool) (*Keyspace, error) {
	k, err := decodeKeyspace(encoded)
	if err != nil {
		return nil, err
	}
	if IsLocalSystem(k.Name) || IsVirtualSystem(k.Name) {
		return nil, fmt.Errorf("%w: keyspace %q is not allowed", ErrFormat, k.Name)
	}
	// Two tables with the same storage id would share their rows.
	var own []StorageID
	for _, t := range k.present {
		own = append(own, t.StorageID)
		for _, ix := range t.indexes {
			own = append(own, ix.ID)
		}
	}
	if k.Dropped != nil {
		own = append(own, k.Dropped.Number)
	}
	for _, id := range own {
		// NextStorage is at least FirstStorageID, even if the encoding omits it.
		if ids[id] || id >= max(e.NextStorage, FirstStorageID) {
			return nil, fmt.Errorf("%w: number %d of keyspace %s", ErrFormat, id, k.Name)
		}
		ids[id] = true
	}
	return k, nil
}

// unmarshal decodes one JSON value. It refuses unknown fields and trailing bytes.
func unmarshal(b []byte, into any) error {
	// A field that this version does not know may change the meaning of the others.
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

// checkFormat refuses versions that this program does not know.
func checkFormat(version int) error {
	if version < 1 || version > formatVersion {
		return fmt.Errorf("%w: version %d is newer than %d", ErrFormat, version, formatVersion)
	}
	return nil
}

// decodeKeyspace decodes a keyspace. Types are decoded first, because tables and functions are checked against them.
func decodeKeyspace(e *encodedKeyspace) (*Keyspace, error) {
	k := NewKeyspace(e.Name, e.Replication, e.DurableWrites)
	// The decoder allocated these maps, so the keyspace can keep them.
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
		// Tables and views share a namespace.
		if k.tables[t.Name] != nil || t.Retention != nil {
			return nil, fmt.Errorf("%w: duplicate table %q", ErrFormat, t.Name)
		}
		k.tables[t.Name] = t
	}
	// Names of retained tables may be in use, and may repeat. Decode compares their storage ids with all others.
	for i := range e.Retained {
		t, err := decodeTable(&e.Retained[i], k)
		if err != nil {
			return nil, err
		}
		if t.Retention == nil || t.View != nil {
			return nil, fmt.Errorf("%w: retained table %q", ErrFormat, t.Name)
		}
		k.retained = append(k.retained, t)
	}
	if err := decodeFunctions(e, k); err != nil {
		return nil, err
	}
	// Checked after all tables, because a view may precede its base table.
	if err := k.checkViews(); err != nil {
		return nil, err
	}
	if e.Retention != nil {
		k = hide(k, DroppedKeyspace{Retention: *e.Retention, Name: e.Name, Number: e.Number})
	}
	k.link()
	return k, nil
}

// decodeType parses an encoded class name.
func decodeType(class string) (*types.Type, error) {
	t, err := types.ParseDeclaredClass(class)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return t, nil
}

// decodeTable decodes a table of k and seals it. It checks that names and ids of columns are unique, that key positions
// are in order, and that indexes refer to existing columns.
func decodeTable(e *encodedTable, k *Keyspace) (*Table, error) {
	t := &Table{ID: e.ID, StorageID: e.StorageID, Keyspace: k.Name, Name: e.Name,
		NextColumn: e.NextColumn, Options: e.Options, Compact: e.Compact, Replication: k.Replication, View: e.View,
		Retention: e.Retention}
	// Seal builds lookups by id and by name, which must be unique.
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
	// Dropped columns share ids with columns that were added again.
	for i := range e.Dropped {
		c, err := decodeColumn(&e.Dropped[i], t)
		if err != nil {
			return nil, err
		}
		d := DroppedColumn{Column: *c, Micros: e.Dropped[i].Micros, Until: e.Dropped[i].Until}
		if d.Until > 0 {
			d.Declared = c.Type
		}
		if class := e.Dropped[i].Declared; class != "" {
			if d.Declared, err = decodeType(class); err != nil {
				return nil, err
			}
		}
		t.Dropped = append(t.Dropped, d)
	}
	// Apply's rules are not repeated, except for those on which other code relies.
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

// decodeIndex decodes an index. The caller checks its column.
func decodeIndex(e *encodedIndex) (*Index, error) {
	if err := checkIndexEnums(e.Class, e.Target); err != nil {
		return nil, err
	}
	// Kind is derived, so it cannot contradict Class.
	ix := &Index{ID: e.ID, Name: e.Name, Kind: e.Class.kind(), Class: e.Class, Column: e.Column, Target: e.Target,
		Options: e.Options}
	return ix, nil
}

// checkIndexEnums refuses enumeration values that this version does not know.
func checkIndexEnums(class IndexClass, target IndexTarget) error {
	// Both enumerations start at 1: zero means that the field is missing.
	if class < LegacyIndex || class > SASI || target < IndexSimple || target > IndexFull {
		return fmt.Errorf("%w: index of class %d with target %d", ErrFormat, class, target)
	}
	return nil
}

// decodeColumn decodes a column of t, whose NextColumn is set. For masks and attributes, it only checks the form: they
// may refer to functions of another version.
func decodeColumn(e *encodedColumn, t *Table) (*Column, error) {
	// byID has NextColumn elements.
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

// place appends a decoded column to its list. Key columns arrive in key order, so the encoded position is redundant and
// must match.
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
	// A wrong position would assign values to the wrong key column.
	if c.Position != position {
		return fmt.Errorf("%w: column %q of %s.%s at position %d", ErrFormat, c.Name, t.Keyspace, t.Name, c.Position)
	}
	return nil
}

// writeHeader hashes what the version depends on besides the keyspaces. It includes nextStorage, because schemas that
// differ only in it assign different ids to the next table.
func (s *Schema) writeHeader(h io.Writer) {
	_, _ = fmt.Fprintf(h, "cqld schema %d %d", formatVersion, s.nextStorage) // a hash returns no error
}
