package admin

import (
	"fmt"
	"strings"

	"cqld/internal/wire"
	"cqld/schema"
	"cqld/types"
)

// parseKey reads a partition key in the format of nodetool: the values of its columns joined by colons, with \: for a
// colon within a value. A key with one column is not split, so its text may contain colons. The result has the form in
// which storage and tokens use a key: the value alone for one column, otherwise each value with its length and a zero
// byte. Example for PRIMARY KEY ((country, id), …) with text and int: "de:7" becomes 00 02 64 65 00 00 04 00 00 00 07
// 00.
func parseKey(t *schema.Table, text string) ([]byte, error) {
	// One value is read as it is written, without escapes.
	if len(t.PartitionKey) == 1 {
		return parseValue(t.PartitionKey[0].Type, text)
	}
	parts := splitKey(text)
	if len(parts) != len(t.PartitionKey) {
		// A colon in a value would change the number of columns, which the message says.
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
		// The length of a value has two bytes in the key of several columns.
		if len(v) > 0xFFFF {
			return nil, fmt.Errorf("a value of %d bytes is too long for a key", len(v))
		}
		// Each value is preceded by its length and followed by a zero byte.
		key = append(append(wire.AppendUint16(key, uint16(len(v))), v...), 0)
	}
	return key, nil
}

// splitKey splits at colons that are not escaped. A backslash before any other character stays.
func splitKey(text string) (parts []string) {
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		// A backslash escapes a colon and itself.
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
	// The last part has no colon after it, so an empty text is one empty part.
	return append(parts, part.String())
}

// parseValue reads a value as CQL writes its constants, but a string without quotes. The kinds are tried in an order in
// which the first that fits is the right one. For example, a column of type uuid is read as a UUID, an int as an
// integer, a blob as 0x…, and text as it is.
func parseValue(t *types.Type, text string) ([]byte, error) {
	var last error
	for _, kind := range []types.LiteralKind{types.StringLiteral, types.IntegerLiteral, types.FloatLiteral,
		types.UUIDLiteral,
		types.BooleanLiteral, types.HexLiteral, types.DurationLiteral} {
		// A kind that cannot be assigned to the type is skipped without an error.
		if !kind.Assigns(t) {
			continue
		}
		v, err := t.FromLiteral(kind, text)
		if err == nil {
			return v, nil
		}
		// Only a kind that fits the type counts as an attempt, so the message is about the right kind.
		last = err
	}
	// The error of the last attempt is shown; all of them would be too much.
	if last == nil {
		last = fmt.Errorf("a key of type %s cannot be written as text", t)
	}
	return nil, last
}

// keyText returns a partition key in the format that parseKey reads. A key that is not valid for the table is shown as
// a blob.
func keyText(t *schema.Table, key []byte) string {
	if len(t.PartitionKey) == 1 {
		return string(t.PartitionKey[0].Type.AppendText(nil, key))
	}
	var parts []string
	c := wire.NewCursor(key)
	// The encoded value is between its length and a zero byte.
	for _, column := range t.PartitionKey {
		v := c.Take(int(c.Uint16()))
		c.Skip(1)
		text := string(column.Type.AppendText(nil, v))
		parts = append(parts, strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(text))
	}
	// The cursor has an error if the key is shorter than its lengths say.
	if c.Err() != nil {
		return fmt.Sprintf("0x%x", key)
	}
	return strings.Join(parts, ":")
}
