package frame

import (
	"slices"

	"cqld/internal/wire"
)

// StringPair is an entry of a [string map], in the order it was sent. A slice of them keeps what a Go map would lose: a
// key that was sent twice.
type StringPair struct{ Key, Value string }

// ConsumeStringMap consumes a [string map], the body of STARTUP. Order and repetitions are kept as sent. Keys and
// values are copies.
func ConsumeStringMap(c *wire.Cursor) []StringPair {
	n := c.ShortCount(2 + 2)
	pairs := make([]StringPair, 0, n)
	for range n {
		pairs = append(pairs, StringPair{Key: c.String(), Value: c.String()})
	}
	return pairs
}

// AppendStringMap appends a [string map].
func AppendStringMap(dst []byte, pairs []StringPair) []byte {
	dst = wire.AppendUint16(dst, uint16(len(pairs)))
	for _, p := range pairs {
		dst = wire.AppendString(dst, p.Key)
		dst = wire.AppendString(dst, p.Value)
	}
	return dst
}

// SupportedOption is one option of SUPPORTED and the values it may have. Keys are upper case, as STARTUP has them. The
// keys of this server are PROTOCOL_VERSIONS, COMPRESSION, CQL_VERSION and GRACEFUL_DISCONNECT.
type SupportedOption struct {
	Key    string
	Values []string
}

// AppendSupported appends the body of SUPPORTED, a [string multimap]. The order is kept, although the protocol gives it
// no meaning.
func AppendSupported(dst []byte, options []SupportedOption) []byte {
	dst = wire.AppendUint16(dst, uint16(len(options)))
	for _, o := range options {
		dst = wire.AppendString(dst, o.Key)
		dst = wire.AppendStringList(dst, o.Values)
	}
	return dst
}

// ConsumeSupported consumes the body of SUPPORTED.
func ConsumeSupported(c *wire.Cursor) []SupportedOption {
	n := c.ShortCount(2 + 2)
	options := make([]SupportedOption, 0, n)
	for range n {
		options = append(options, SupportedOption{Key: c.String(), Values: c.StringList()})
	}
	return options
}

// Events is the set of event types a connection registered for. It is a set of bits, so that a connection is tested
// with one operation. The zero value is a connection without events.
type Events uint8

// The event types.
const (
	TopologyChange Events = 1 << iota
	StatusChange
	SchemaChangeEvent
	GracefulDisconnect // CEP-59: the connection is about to end
)

// AboutNodes are the events that clients use one connection for. GracefulDisconnect is about the connection itself.
const AboutNodes = TopologyChange | StatusChange | SchemaChangeEvent

// ConsumeRegister consumes the body of REGISTER. An unknown type fails with Cassandra's message.
func ConsumeRegister(c *wire.Cursor) (events Events) {
	for _, name := range c.StringList() {
		switch name {
		case "TOPOLOGY_CHANGE":
			events |= TopologyChange
		case "STATUS_CHANGE":
			events |= StatusChange
		case "SCHEMA_CHANGE":
			events |= SchemaChangeEvent
		case gracefulDisconnect:
			events |= GracefulDisconnect
		// Cassandra refuses a type that it does not know, and the whole REGISTER with it.
		default:
			c.Fail(protocolError("Invalid value '" + name + "' for Type"))
		}
	}
	return events
}

// gracefulDisconnect is the name of the event, and of the option of SUPPORTED that announces it.
const gracefulDisconnect = "GRACEFUL_DISCONNECT"

// GracefulDisconnectOption returns the option of SUPPORTED by which a client knows that it may register for the event.
func GracefulDisconnectOption() SupportedOption {
	return SupportedOption{Key: gracefulDisconnect, Values: []string{"true"}}
}

// AppendRegister appends the body of REGISTER. Clients use it, and tests.
func AppendRegister(dst []byte, events Events) []byte {
	var names []string
	if events&TopologyChange != 0 {
		names = append(names, "TOPOLOGY_CHANGE")
	}
	if events&StatusChange != 0 {
		names = append(names, "STATUS_CHANGE")
	}
	if events&SchemaChangeEvent != 0 {
		names = append(names, "SCHEMA_CHANGE")
	}
	if events&GracefulDisconnect != 0 {
		names = append(names, gracefulDisconnect)
	}
	return wire.AppendStringList(dst, names)
}

// sortedKeys returns the keys in order, so that equal payloads have equal bytes.
func sortedKeys(m map[string][]byte) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
