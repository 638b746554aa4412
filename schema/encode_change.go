package schema

import (
	"encoding/json"
	"fmt"

	"cqld/types"
)

// encodedChange is a Change in the Raft log. Exactly one field is set besides Format and Types. Types contains the
// class names of the change's types, in the order of its columns or fields. A new kind of change is a new field, which
// older versions refuse (unmarshal).
//
//	{"Format":1,"DropTable":{"Keyspace":"ks","Table":"t","IfExists":false}}
type encodedChange struct {
	// Format is the format version of schemas: both encodings share it.
	Format          int
	Types           []string                `json:",omitempty"`
	CreateKeyspace  *CreateKeyspace         `json:",omitempty"`
	AlterKeyspace   *AlterKeyspace          `json:",omitempty"`
	DropKeyspace    *DropKeyspace           `json:",omitempty"`
	UndropKeyspace  *UndropKeyspace         `json:",omitempty"`
	PurgeKeyspaces  *PurgeKeyspaces         `json:",omitempty"`
	CreateTable     *CreateTable            `json:",omitempty"`
	AlterTable      *AlterTable             `json:",omitempty"`
	DropTable       *DropTable              `json:",omitempty"`
	UndropTable     *UndropTable            `json:",omitempty"`
	PurgeTables     *PurgeTables            `json:",omitempty"`
	TruncateTable   *TruncateTable          `json:",omitempty"`
	ReplaceTables   *ReplaceTables          `json:",omitempty"`
	CreateView      *CreateView             `json:",omitempty"`
	AlterView       *AlterView              `json:",omitempty"`
	DropView        *DropView               `json:",omitempty"`
	CreateType      *CreateType             `json:",omitempty"`
	AlterType       *AlterType              `json:",omitempty"`
	DropType        *DropType               `json:",omitempty"`
	CreateIndex     *CreateIndex            `json:",omitempty"`
	DropIndex       *DropIndex              `json:",omitempty"`
	CreateFunction  *encodedCreateFunction  `json:",omitempty"`
	CreateAggregate *encodedCreateAggregate `json:",omitempty"`
	DropFunction    *encodedDropFunction    `json:",omitempty"`
}

// MarshalJSON omits the type, which is in encodedChange.Types. It fixes the names of fields, so renaming a field of
// ColumnSpec does not change the encoding.
func (c ColumnSpec) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name       string
		Kind       ColumnKind
		Desc       bool
		Mask       *Mask       `json:",omitempty"`
		Attributes *Attributes `json:",omitempty"`
	}{c.Name, c.Kind, c.Desc, c.Mask, c.Attributes})
}

// EncodeChange encodes a change without modifying it. It panics for a Change of an unknown type.
func EncodeChange(c Change) []byte {
	e := encodedChange{Format: formatVersion}
	// ColumnSpec.MarshalJSON omits the types, so they are collected here.
	classes := func(specs []ColumnSpec) {
		for _, s := range specs {
			e.Types = append(e.Types, s.Type.DeclaredClass())
		}
	}
	switch c := c.(type) {
	case *CreateKeyspace:
		e.CreateKeyspace = c
	case *AlterKeyspace:
		e.AlterKeyspace = c
	case *DropKeyspace:
		e.DropKeyspace = c
	case *UndropKeyspace:
		e.UndropKeyspace = c
	case *PurgeKeyspaces:
		e.PurgeKeyspaces = c
	// The types follow in e.Types, in the order of the columns.
	case *CreateTable:
		e.CreateTable = c
		classes(c.Columns)
	case *AlterTable:
		e.AlterTable = c
		classes(c.Add)
	case *DropTable:
		e.DropTable = c
	case *UndropTable:
		e.UndropTable = c
	case *PurgeTables:
		e.PurgeTables = c
	case *TruncateTable:
		e.TruncateTable = c
	case *ReplaceTables:
		e.ReplaceTables = c
	case *CreateView:
		e.CreateView = c
	case *AlterView:
		e.AlterView = c
	case *DropView:
		e.DropView = c
	case *CreateType:
		// The class contains the keyspace and name of the type.
		e.CreateType = &CreateType{IfNotExists: c.IfNotExists}
		e.Types = []string{c.Type.DeclaredClass()}
	case *AlterType:
		// Copy, because c is immutable, and its type is encoded separately.
		plain := *c
		if plain.FieldType != nil {
			e.Types = []string{plain.FieldType.DeclaredClass()}
			plain.FieldType = nil
		}
		e.AlterType = &plain
	case *DropType:
		e.DropType = c
	case *CreateIndex:
		e.CreateIndex = c
	case *DropIndex:
		e.DropIndex = c
	case *CreateFunction:
		e.CreateFunction = encodeCreateFunction(c)
	case *CreateAggregate:
		e.CreateAggregate = encodeCreateAggregate(c)
	case *DropFunction:
		e.DropFunction = encodeDropFunction(c)
	default:
		panic(fmt.Sprintf("schema: encode change %T", c))
	}
	// Exactly one field besides Format and Types is set now.
	return marshal(e)
}

// DecodeChange decodes the output of EncodeChange. Errors are ErrFormat. It does not validate the change; Apply does.
func DecodeChange(b []byte) (Change, error) {
	var e encodedChange
	if err := unmarshal(b, &e); err != nil {
		return nil, err
	}
	if err := checkFormat(e.Format); err != nil {
		return nil, err
	}
	// Types are parsed once, and assigned to the change by position.
	decoded := make([]*types.Type, len(e.Types))
	for i, class := range e.Types {
		t, err := decodeType(class)
		if err != nil {
			return nil, err
		}
		decoded[i] = t
	}
	return e.change(decoded)
}

// change returns the change in e, with its types.
func (e *encodedChange) change(decoded []*types.Type) (Change, error) {
	// If a faulty encoding sets several fields, every node takes the first one in this order.
	switch {
	case e.CreateKeyspace != nil:
		return e.CreateKeyspace, nil
	case e.AlterKeyspace != nil:
		return e.AlterKeyspace, nil
	case e.DropKeyspace != nil:
		return e.DropKeyspace, nil
	case e.UndropKeyspace != nil:
		return e.UndropKeyspace, nil
	case e.PurgeKeyspaces != nil:
		return e.PurgeKeyspaces, nil
	case e.CreateTable != nil:
		return e.CreateTable, giveTypes(e.CreateTable.Columns, decoded)
	case e.AlterTable != nil:
		if m := e.AlterTable.Mask; m != nil {
			if err := checkMask(m.Mask); err != nil {
				return nil, err
			}
		}
		return e.AlterTable, giveTypes(e.AlterTable.Add, decoded)
	case e.DropTable != nil:
		return e.DropTable, nil
	case e.UndropTable != nil:
		return e.UndropTable, nil
	case e.PurgeTables != nil:
		return e.PurgeTables, nil
	case e.TruncateTable != nil:
		return e.TruncateTable, nil
	case e.ReplaceTables != nil:
		return e.ReplaceTables, nil
	case e.CreateView != nil:
		return e.CreateView, nil
	case e.AlterView != nil:
		return e.AlterView, nil
	case e.DropView != nil:
		return e.DropView, nil
	case e.CreateType != nil:
		// A user-defined type is declared unfrozen.
		if len(decoded) != 1 || decoded[0].Kind() != types.UDT || decoded[0].Frozen() {
			return nil, fmt.Errorf("%w: the type to be created is missing", ErrFormat)
		}
		e.CreateType.Type = decoded[0]
		return e.CreateType, nil
	case e.AlterType != nil:
		// JSON may contain FieldType directly, which would bypass the class name.
		e.AlterType.FieldType = nil
		if len(decoded) == 1 {
			e.AlterType.FieldType = decoded[0]
		}
		return e.AlterType, nil
	case e.DropType != nil:
		return e.DropType, nil
	// Apply would report an unknown class as a user's error, but here it means an encoding of a newer version.
	case e.CreateIndex != nil:
		return e.CreateIndex, checkIndexEnums(e.CreateIndex.Class, e.CreateIndex.Target)
	case e.DropIndex != nil:
		return e.DropIndex, nil
	case e.CreateFunction != nil:
		return e.CreateFunction.change()
	case e.CreateAggregate != nil:
		return e.CreateAggregate.change()
	case e.DropFunction != nil:
		return e.DropFunction.change()
	}
	return nil, fmt.Errorf("%w: a change without a kind", ErrFormat)
}

// giveTypes assigns the types of columns, and checks the columns' masks.
func giveTypes(specs []ColumnSpec, decoded []*types.Type) error {
	// Types are assigned by position, so a missing one would shift the others.
	if len(specs) != len(decoded) {
		return fmt.Errorf("%w: %d types for %d columns", ErrFormat, len(decoded), len(specs))
	}
	for i := range specs {
		specs[i].Type = decoded[i]
		if err := checkMask(specs[i].Mask); err != nil {
			return err
		}
	}
	return nil
}
