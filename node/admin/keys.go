package admin

import (
	"fmt"
	"strings"

	"cqld/internal/wire"
	"cqld/schema"
	"cqld/types"
)

// parseKey reads a partition key in the format of nodetool: the values of its columns joined by colons, with \: for a
// colon within a value.
func parseKey(t *schema.Table, text string) ([]byte, error) {
	if len(t.PartitionKey) == 1 {
		return parseValue(t.PartitionKey[0].Type, text)
	}
	parts := splitKey(text)
	if len(parts) != len(t.PartitionKey) {
		return nil, fmt.Errorf("the partition key of %s.%s has %d columns, %q has %d: join them by colons, and "+
			"write \\: for a colon in one",
			t.Keyspace, t.Name, len(t.PartitionKey), text, len(parts))
	}
	var key []byte
	for i, p := range parts {
		v, err := parseValue(t.PartitionKey[i].Type, p)
		if err != nil {
			return nil, err
		}
		if len(v) > 0xFFFF {
			return nil, fmt.Errorf("a value of %d bytes is too long for a key", len(v))
		}
		key = append(append(wire.AppendUint16(key, uint16(len(v))), v...), 0)
	}
	return key, nil
}

func splitKey(text string) (parts []string) {
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == ':' || text[i+1] == '\\'):
			i++
			part.WriteByte(text[i])
		case text[i] == ':':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(text[i])
		}
	}
	return append(parts, part.String())
}

// parseValue reads a value as CQL writes its constants, but a string without quotes.
func parseValue(t *types.Type, text string) ([]byte, error) {
	var last error
	for _, kind := range []types.LiteralKind{types.StringLiteral, types.IntegerLiteral, types.FloatLiteral,
		types.UUIDLiteral,
		types.BooleanLiteral, types.HexLiteral, types.DurationLiteral} {
		if !kind.Assigns(t) {
			continue
		}
		v, err := t.FromLiteral(kind, text)
		if err == nil {
			return v, nil
		}
		last = err
	}
	if last == nil {
		last = fmt.Errorf("a key of type %s cannot be written as text", t)
	}
	return nil, last
}

// keyText returns a partition key in the format that parseKey reads.
func keyText(t *schema.Table, key []byte) string {
	if len(t.PartitionKey) == 1 {
		return string(t.PartitionKey[0].Type.AppendText(nil, key))
	}
	var parts []string
	c := wire.NewCursor(key)
	for _, column := range t.PartitionKey {
		v := c.Take(int(c.Uint16()))
		c.Skip(1)
		text := string(column.Type.AppendText(nil, v))
		parts = append(parts, strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(text))
	}
	if c.Err() != nil {
		return fmt.Sprintf("0x%x", key)
	}
	return strings.Join(parts, ":")
}
