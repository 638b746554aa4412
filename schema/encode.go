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

// formatVersion is the version of the encodings of Schema and Change. A decoder accepts its own version and all older
// ones. It is part of the schema's version (writeHeader), so that a change of it changes the version of every schema.
const formatVersion = 1

// ErrFormat is the error for bytes that do not encode a schema or change (errors.Is). The errors wrap it and say what
// is wrong.
var ErrFormat = errors.New("schema: not an encoded schema or change")

// encodedSchema is a schema without the keyspaces that the program defines itself. The encoding is JSON: unknown fields
// are refused, so that an older version never drops what it does not know.
type encodedSchema struct {
	// Format is formatVersion of the program that wrote the encoding.
	Format int
	// NextStorage is stored because numbers of dropped tables must not be used again; the tables do not show them.
	NextStorage StorageID
	// By name.
	Keyspaces []encodedKeyspace
	// Dropped are the keyspaces that can be restored, by hidden name.
	Dropped []encodedKeyspace `json:",omitempty"`
}

// encodedKeyspace is a keyspace with its elements, each kind by name or signature. Types are class names, whose
// user-defined types contain their fields.
type encodedKeyspace struct {
	Name          string
	Replication   ring.Replication
	DurableWrites bool
	// nil values do not occur.
	Extensions map[string][]byte `json:",omitempty"`
	// By commentKey.
	Comments map[string]string `json:",omitempty"`
	Labels   map[string]string `json:",omitempty"` // security labels
	// In the order of their names. A type contains the types that it uses, so the order does not matter for decoding.
	Types      []string           `json:",omitempty"` // classes
	Tables     []encodedTable     `json:",omitempty"`
	Retained   []encodedTable     `json:",omitempty"` // in the order of their drops
	Functions  []encodedFunction  `json:",omitempty"`
	Aggregates []encodedAggregate `json:",omitempty"`
	// Of dropped keyspaces only. Name is then the name before the drop.
	Number    StorageID  `json:",omitempty"`
	Retention *Retention `json:",omitempty"`
}

// encodedTable is a table. The name of its keyspace is the keyspace's. Column order is the order of stored: key columns
// first. A new field must be omitted when empty, so that digests of older tables stay.
type encodedTable struct {
	ID UUID
	// The number is in the key of every row, so it is part of what nodes must agree on.
	StorageID StorageID
	Name      string
	Columns   []encodedColumn
	// With the times of their drops in Micros.
	Dropped []encodedColumn `json:",omitempty"`
	// Greater than all ids in Columns and Dropped. Ids of dropped columns are not given to new names.
	NextColumn ColumnID
	Options    Options
	// nil for ordinary tables.
	View    *View          `json:",omitempty"`
	Indexes []encodedIndex `json:",omitempty"`
	Compact Compact        `json:",omitempty"`
	// Of retained tables only.
	Retention *Retention `json:",omitempty"`
}

// encodedColumn is a column, or a dropped column.
type encodedColumn struct {
	// A dropped column and the column that was added again with its name have the same id.
	ID   ColumnID
	Name string
	Kind ColumnKind
	// -1 unless the column is part of the key.
	Position int
	Desc     bool   `json:",omitempty"`
	Type     string // class
	// µs since 1970; see Column.DroppedMicros.
	DroppedMicros int64       `json:",omitempty"`
	Micros        int64       `json:",omitempty"` // of a dropped column
	Mask          *Mask       `json:",omitempty"`
	Attributes    *Attributes `json:",omitempty"`
}

// encodedIndex is an index. Its kind follows from the class.
type encodedIndex struct {
	// From the counter of tables (NextStorage).
	ID      StorageID
	Name    string
	Class   IndexClass
	Column  ColumnID
	Target  IndexTarget
	Options map[string]string `json:",omitempty"`
}

// Encode encodes the schema. Equal schemas have equal encodings: lists are sorted, and JSON sorts maps. Keyspaces that
// the program itself defines (the local and virtual system keyspaces) are omitted: they may differ between versions.
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

// marshal encodes the types of this file. It cannot fail, because they contain no functions, cycles or NaN.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("schema: encode %T: %v", v, err))
	}
	return b
}

// encodeKeyspace encodes a keyspace with its tables. link calls it with a copy without tables.
func encodeKeyspace(k *Keyspace) encodedKeyspace {
	e := encodedKeyspace{Name: k.Name, Replication: k.Replication, DurableWrites: k.DurableWrites,
		Extensions: k.Extensions,
		Comments:   k.comments, Labels: k.labels}
	if d := k.Dropped; d != nil {
		e.Name, e.Number, e.Retention = d.Name, d.Number, &d.Retention
	}
	for _, name := range k.TypeNames() {
		// Declared classes restore the types as they were declared.
		e.Types = append(e.Types, k.types[name].DeclaredClass())
	}
	for _, name := range k.allNames() {
		t := encodeTable(k.tables[name])
		t.Retention = nil // of the keyspace; such a table has none of its own
		e.Tables = append(e.Tables, t)
	}
	for _, t := range k.retained {
		e.Retained = append(e.Retained, encodeTable(t))
	}
	encodeFunctions(&e, k)
	return e
}

// encodeTable encodes a table. Its digest is the hash of this encoding, so that the order of fields matters.
func encodeTable(t *Table) encodedTable {
	e := encodedTable{ID: t.ID, StorageID: t.StorageID, Name: t.Name, NextColumn: t.NextColumn, Options: t.Options,
		Compact: t.Compact, View: t.View, Retention: t.Retention}
	// With hidden columns.
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

// encodeColumn encodes a column without Micros, which only dropped columns have.
func encodeColumn(c *Column) encodedColumn {
	return encodedColumn{ID: c.ID, Name: c.Name, Kind: c.Kind, Position: c.Position, Desc: c.Desc,
		Type: c.Type.DeclaredClass(), DroppedMicros: c.DroppedMicros, Mask: c.Mask, Attributes: c.Attributes}
}

// Decode decodes the output of Encode and adds the keyspaces that the program itself defines (Own). The replicated
// system keyspaces are the encoded ones, even if this program would create a cluster with different ones. Errors are
// ErrFormat. The input may come from a file or another node: the result is checked as far as other code relies on it,
// so that it never panics later. It checks what a wrong or hostile encoding could break: numbers and ids that occur
// twice, positions of key columns, columns of indexes, base tables of views, functions of aggregates.
func Decode(b []byte) (*Schema, error) {
	var e encodedSchema
	if err := unmarshal(b, &e); err != nil {
		return nil, err
	}
	if err := checkFormat(e.Format); err != nil {
		return nil, err
	}
	keyspaces := map[string]*Keyspace{}
	// Numbers of tables and indexes are unique in the schema.
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
	// The program's own keyspaces are added last: their numbers are below FirstStorageID, and not in the encoding.
	return build(keyspaces, dropped, max(e.NextStorage, FirstStorageID)).withOwn(), nil
}

// decode decodes a keyspace of e. ids are the numbers of the keyspaces before it, to which it adds.
func (e *encodedSchema) decode(encoded *encodedKeyspace, ids map[StorageID]bool) (*Keyspace, error) {
	k, err := decodeKeyspace(encoded)
	if err != nil {
		return nil, err
	}
	if IsLocalSystem(k.Name) || IsVirtualSystem(k.Name) {
		return nil, fmt.Errorf("%w: keyspace %q is not allowed", ErrFormat, k.Name)
	}
	// Two tables with the same number would share their rows.
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
		// NextStorage is at least FirstStorageID, also in an encoding without it.
		if ids[id] || id >= max(e.NextStorage, FirstStorageID) {
			return nil, fmt.Errorf("%w: number %d of keyspace %s", ErrFormat, id, k.Name)
		}
		ids[id] = true
	}
	return k, nil
}

// unmarshal decodes one JSON value and refuses unknown fields and further bytes.
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

// decodeKeyspace decodes a keyspace. Types come first, because checks of tables and functions need them.
func decodeKeyspace(e *encodedKeyspace) (*Keyspace, error) {
	k := NewKeyspace(e.Name, e.Replication, e.DurableWrites)
	// The decoder has allocated these maps, so the keyspace may keep them.
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
		// Tables and views share one space of names.
		if k.tables[t.Name] != nil || t.Retention != nil {
			return nil, fmt.Errorf("%w: duplicate table %q", ErrFormat, t.Name)
		}
		k.tables[t.Name] = t
	}
	// Names of retained tables may be in use, and occur several times. Decode compares their numbers with all others.
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
	// After all tables: a view may come before its base table.
	if err := k.checkViews(); err != nil {
		return nil, err
	}
	if e.Retention != nil {
		k = hide(k, DroppedKeyspace{Retention: *e.Retention, Name: e.Name, Number: e.Number})
	}
	k.link()
	return k, nil
}

// decodeType parses a class name of an encoding.
func decodeType(class string) (*types.Type, error) {
	t, err := types.ParseDeclaredClass(class)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return t, nil
}

// decodeTable decodes a table of k, and seals it. Columns must be complete and consistent: unique names and ids, key
// positions in order, indexes on existing columns.
func decodeTable(e *encodedTable, k *Keyspace) (*Table, error) {
	t := &Table{ID: e.ID, StorageID: e.StorageID, Keyspace: k.Name, Name: e.Name,
		NextColumn: e.NextColumn, Options: e.Options, Compact: e.Compact, Replication: k.Replication, View: e.View,
		Retention: e.Retention}
	// Seal builds lists by id and by name, which need unique ones.
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
		t.Dropped = append(t.Dropped, DroppedColumn{Column: *c, Micros: e.Dropped[i].Micros})
	}
	// Most of Apply's rules are not repeated: only what other code relies on without a check.
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

// decodeIndex decodes an index, whose column the caller checks.
func decodeIndex(e *encodedIndex) (*Index, error) {
	if err := checkIndexEnums(e.Class, e.Target); err != nil {
		return nil, err
	}
	// The kind is not encoded, so that it cannot contradict the class.
	ix := &Index{ID: e.ID, Name: e.Name, Kind: e.Class.kind(), Class: e.Class, Column: e.Column, Target: e.Target,
		Options: e.Options}
	return ix, nil
}

// checkIndexEnums refuses values that this version does not know.
func checkIndexEnums(class IndexClass, target IndexTarget) error {
	// Both enumerations start at 1: zero is a field that was missing.
	if class < LegacyIndex || class > SASI || target < IndexSimple || target > IndexFull {
		return fmt.Errorf("%w: index of class %d with target %d", ErrFormat, class, target)
	}
	return nil
}

// decodeColumn decodes a column of t, whose NextColumn is set. Masks and attributes are only checked for their form:
// their functions may be of another version.
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

// place puts a decoded column into its list. Key columns arrive in key order. The position is redundant, and must
// agree.
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
	// A gap or a wrong order would give values to the wrong key column.
	if c.Position != position {
		return fmt.Errorf("%w: column %q of %s.%s at position %d", ErrFormat, c.Name, t.Keyspace, t.Name, c.Position)
	}
	return nil
}

// writeHeader writes the part of the content on which the version depends besides the keyspaces. nextStorage is
// included: two schemas that differ only in it give different numbers to the next table.
func (s *Schema) writeHeader(h io.Writer) {
	_, _ = fmt.Fprintf(h, "cqld schema %d %d", formatVersion, s.nextStorage) // a hash returns no error
}
