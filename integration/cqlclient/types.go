package cqlclient

import (
	"fmt"
	"strings"
)

// Type is a column type as encoded in the protocol. It is decoded from an [option]: an id of two bytes, and parameters
// for ids from 0x20 on and for 0x00. The bytes 00 22 00 09 are set<int>.
type Type struct {
	ID     int
	Custom string // class name, or keyspace.name of a user type
	// Names of the fields of a user-defined type.
	Fields []string
	// Types of the elements or fields.
	Args []Type
}

// Type ids of the protocol. 0x0A was text in old versions of the protocol.
const (
	tCustom    = 0x00
	tASCII     = 0x01
	tBigint    = 0x02
	tBlob      = 0x03
	tBoolean   = 0x04
	tCounter   = 0x05
	tDecimal   = 0x06
	tDouble    = 0x07
	tFloat     = 0x08
	tInt       = 0x09
	tTimestamp = 0x0B
	tUUID      = 0x0C
	tVarchar   = 0x0D
	tVarint    = 0x0E
	tTimeUUID  = 0x0F
	tInet      = 0x10
	tDate      = 0x11
	tTime      = 0x12
	tSmallint  = 0x13
	tTinyint   = 0x14
	tDuration  = 0x15
	tList      = 0x20
	tMap       = 0x21
	tSet       = 0x22
	tUDT       = 0x30
	tTuple     = 0x31
)

// scalarNames are the CQL names by id; empty for ids that are not native types.
var scalarNames = [...]string{
	tASCII: "ascii", tBigint: "bigint", tBlob: "blob", tBoolean: "boolean", tCounter: "counter", tDecimal: "decimal",
	tDouble: "double", tFloat: "float", tInt: "int", tTimestamp: "timestamp", tUUID: "uuid", tVarchar: "text",
	tVarint: "varint", tTimeUUID: "timeuuid", tInet: "inet", tDate: "date", tTime: "time", tSmallint: "smallint",
	tTinyint: "tinyint", tDuration: "duration",
}

// decodeType decodes [option]. Types nest without a bound: the servers under test are trusted to that extent.
func decodeType(r *reader) Type {
	t := Type{ID: r.short()}
	if r.err != nil {
		return t
	}
	switch t.ID {
	case tCustom:
		t.Custom = r.string()
	case tList, tSet:
		t.Args = []Type{decodeType(r)}
	case tMap:
		t.Args = []Type{decodeType(r), decodeType(r)}
	case tTuple:
		for n := r.short(); n > 0 && r.err == nil; n-- {
			t.Args = append(t.Args, decodeType(r))
		}
	case tUDT:
		// In the specification these are two strings.
		t.Custom = r.string() + "." + r.string()
		for n := r.short(); n > 0 && r.err == nil; n-- {
			t.Fields = append(t.Fields, r.string())
			t.Args = append(t.Args, decodeType(r))
		}
	}
	return t
}

// String returns the type in CQL. Custom types, such as vectors in v4, are shown by their class name.
func (t Type) String() string {
	switch t.ID {
	case tCustom:
		return "'" + t.Custom + "'"
	case tList, tSet, tMap, tTuple:
		args := make([]string, len(t.Args))
		for i, a := range t.Args {
			args[i] = a.String()
		}
		name := map[int]string{tList: "list", tSet: "set", tMap: "map", tTuple: "tuple"}[t.ID]
		return name + "<" + strings.Join(args, ", ") + ">"
	case tUDT:
		return t.Custom
	}
	if t.ID < len(scalarNames) && scalarNames[t.ID] != "" {
		return scalarNames[t.ID]
	}
	return fmt.Sprintf("type %#x", t.ID)
}
