package frame

import (
	"net/netip"

	"cqld/internal/wire"
)

// ResultKind is the first field of a RESULT.
type ResultKind int32

// The kinds of RESULT.
const (
	KindVoid         ResultKind = 1
	KindRows         ResultKind = 2
	KindSetKeyspace  ResultKind = 3
	KindPrepared     ResultKind = 4
	KindSchemaChange ResultKind = 5
)

// AppendVoidResult appends the body of a Void result.
func AppendVoidResult(dst []byte) []byte { return wire.AppendInt32(dst, int32(KindVoid)) }

// AppendSetKeyspaceResult appends the body of a Set_keyspace result.
func AppendSetKeyspaceResult(dst []byte, keyspace string) []byte {
	dst = wire.AppendInt32(dst, int32(KindSetKeyspace))
	return wire.AppendString(dst, keyspace)
}

// AppendRowsResult appends the body of a Rows result. rows contains count rows, each with a [bytes] for each column. It
// copies rows.
func AppendRowsResult(dst []byte, v Version, m *RowsMetadata, count int, rows []byte) []byte {
	dst = wire.AppendInt32(dst, int32(KindRows))
	dst = AppendRowsMetadata(dst, v, m)
	dst = wire.AppendInt32(dst, int32(count))
	return append(dst, rows...)
}

// AppendPreparedResult appends the body of a Prepared result.
func AppendPreparedResult(dst []byte, v Version, p *Prepared) []byte {
	dst = wire.AppendInt32(dst, int32(KindPrepared))
	return AppendPrepared(dst, v, p)
}

// AppendSchemaChangeResult appends the body of a Schema_change result.
func AppendSchemaChangeResult(dst []byte, v Version, s *SchemaChange) []byte {
	dst = wire.AppendInt32(dst, int32(KindSchemaChange))
	return s.append(dst, v)
}

// The strings of a SchemaChange.
const (
	ChangeCreated = "CREATED"
	ChangeUpdated = "UPDATED"
	ChangeDropped = "DROPPED"

	TargetKeyspace  = "KEYSPACE"
	TargetTable     = "TABLE"
	TargetType      = "TYPE"
	TargetFunction  = "FUNCTION"
	TargetAggregate = "AGGREGATE"
)

// SchemaChange describes the effect of a data definition statement. The client that made the change gets it as the
// result, and all registered clients as an event. Names are as they are stored: in lower case unless they were quoted.
type SchemaChange struct {
	Change   string
	Target   string
	Keyspace string
	Name     string   // "" for a keyspace
	ArgTypes []string // of a function or aggregate
}

// append appends <change_type><target><options>, which the result and the event share.
func (s *SchemaChange) append(dst []byte, v Version) []byte {
	change, target := s.Change, s.Target
	callable := target == TargetFunction || target == TargetAggregate
	if callable && v < V4 {
		// v3 has no such targets; its clients are notified that the keyspace changed.
		change, target, callable = ChangeUpdated, TargetKeyspace, false
	}
	dst = wire.AppendString(dst, change)
	dst = wire.AppendString(dst, target)
	dst = wire.AppendString(dst, s.Keyspace)
	if target == TargetKeyspace {
		return dst
	}
	dst = wire.AppendString(dst, s.Name)
	if callable {
		dst = wire.AppendStringList(dst, s.ArgTypes)
	}
	return dst
}

// ConsumeSchemaChange consumes the body of a Schema_change result or event. Strings are not checked.
func ConsumeSchemaChange(c *wire.Cursor) (s SchemaChange) {
	s.Change, s.Target, s.Keyspace = c.String(), c.String(), c.String()
	// A keyspace has no further name.
	if s.Target == TargetKeyspace {
		return s
	}
	s.Name = c.String()
	// Functions are overloaded: the argument types are part of the name.
	if s.Target == TargetFunction || s.Target == TargetAggregate {
		s.ArgTypes = c.StringList()
	}
	return s
}

// AppendSchemaEvent appends the body of a SCHEMA_CHANGE event. Its body is the one of the result, after the type of the
// event.
func AppendSchemaEvent(dst []byte, v Version, s *SchemaChange) []byte {
	dst = wire.AppendString(dst, "SCHEMA_CHANGE")
	return s.append(dst, v)
}

// The strings of topology and status events.
const (
	NodeNew     = "NEW_NODE"
	NodeRemoved = "REMOVED_NODE"
	NodeMoved   = "MOVED_NODE"
	NodeUp      = "UP"
	NodeDown    = "DOWN"
)

// AppendTopologyEvent appends the body of a TOPOLOGY_CHANGE event about the node that clients reach at addr.
func AppendTopologyEvent(dst []byte, change string, addr netip.AddrPort) []byte {
	return appendNodeEvent(dst, "TOPOLOGY_CHANGE", change, addr)
}

// AppendStatusEvent appends the body of a STATUS_CHANGE event about the node that clients reach at addr.
func AppendStatusEvent(dst []byte, change string, addr netip.AddrPort) []byte {
	return appendNodeEvent(dst, "STATUS_CHANGE", change, addr)
}

// AppendGracefulDisconnect appends the body of a GRACEFUL_DISCONNECT event, which consists of its type.
func AppendGracefulDisconnect(dst []byte) []byte { return wire.AppendString(dst, gracefulDisconnect) }

// appendNodeEvent appends the type of the event, the change, and the address as [inet].
func appendNodeEvent(dst []byte, event, change string, addr netip.AddrPort) []byte {
	dst = wire.AppendString(dst, event)
	dst = wire.AppendString(dst, change)
	return wire.AppendInet(dst, addr)
}

// Event is a decoded EVENT. Node is the address for clients, not the one for other nodes. Only tests and clients decode
// events.
type Event struct {
	Type   string // SCHEMA_CHANGE, TOPOLOGY_CHANGE, STATUS_CHANGE or GRACEFUL_DISCONNECT
	Change string
	Node   netip.AddrPort
	Schema SchemaChange // of a SCHEMA_CHANGE
}

// ConsumeEvent consumes the body of EVENT.
func ConsumeEvent(c *wire.Cursor) (e Event) {
	switch e.Type = c.String(); e.Type {
	case "SCHEMA_CHANGE":
		e.Schema = ConsumeSchemaChange(c)
		e.Change = e.Schema.Change
	case "TOPOLOGY_CHANGE", "STATUS_CHANGE":
		e.Change = c.String()
		e.Node = c.Inet()
	// It has no body: the type says all.
	case gracefulDisconnect:
	default:
		c.Fail(wire.ErrMalformed)
	}
	return e
}

// Result is a decoded RESULT. Kind says which fields are set.
type Result struct {
	Kind     ResultKind
	Keyspace string // Set_keyspace
	Prepared Prepared
	Schema   SchemaChange
	Metadata RowsMetadata
	Columns  int    // of each row
	RowCount int    // in Rows
	Rows     []byte // RowCount × Columns [bytes]
}

// ConsumeResult decodes the body of RESULT after its prefix. Byte slices point into the body. It is for clients: a
// server only appends results.
func ConsumeResult(c *wire.Cursor, v Version) (r Result) {
	switch r.Kind = ResultKind(c.Int32()); r.Kind {
	case KindVoid:
	case KindRows:
		r.Metadata, r.Columns = ConsumeRowsMetadata(c)
		r.RowCount = int(c.Int32())
		// Not decoded: the caller knows the types.
		r.Rows = c.Rest()
	case KindSetKeyspace:
		r.Keyspace = c.String()
	case KindPrepared:
		r.Prepared = ConsumePrepared(c, v)
	case KindSchemaChange:
		r.Schema = ConsumeSchemaChange(c)
	default:
		c.Fail(wire.ErrMalformed)
	}
	return r
}
