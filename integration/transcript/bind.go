package transcript

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"strings"

	"cqld/integration/cqlclient"
)

// parseBinds parses the values of one "? …" line. The values are separated by blanks: int:5 text:'a b' null unset
// v=int:7.
func parseBinds(line string) ([]cqlclient.Value, error) {
	var out []cqlclient.Value
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		var word string
		word, line = nextWord(line)
		var v cqlclient.Value
		// A value may contain "=", too, but only after its type.
		if name, rest, ok := strings.Cut(word, "="); ok && !strings.ContainsAny(name, ":'") {
			v.Name, word = name, rest
		}
		var err error
		switch word {
		// The zero Value is null.
		case "null":
		case "unset":
			v.Unset = true
		default:
			v.Bytes, err = encodeBind(word)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// nextWord splits at the first blank outside quotes and brackets. Quotes protect brackets, and brackets protect blanks.
func nextWord(line string) (word, rest string) {
	// A doubled quotation mark closes and opens the quotes, which has the same effect.
	quoted, depth := false, 0
	for i, c := range line {
		switch {
		case c == '\'':
			quoted = !quoted
		case c == '[' && !quoted:
			depth++
		case c == ']' && !quoted:
			depth--
		case c == ' ' && !quoted && depth == 0:
			return line[:i], line[i:]
		}
	}
	return line, ""
}

// encodeBind returns the wire form of type:value; 0x… is used unchanged, list:[…] and map:[key value …] nest, and
// fill:n is n letters. Types have their CQL names; there is no check against the type of the bind marker, so a file can
// bind wrong bytes on purpose. For example:
//
//	list:[int:1 int:2]      00 00 00 02  00 00 00 04 00 00 00 01  00 00 00 04 00 00 00 02
//	map:[text:'a' int:1]    00 00 00 01  00 00 00 01 61           00 00 00 04 00 00 00 01
//	fill:3                  61 61 61
//	0x                      the empty value
func encodeBind(word string) ([]byte, error) {
	if h, ok := strings.CutPrefix(word, "0x"); ok {
		b, err := hex.DecodeString(h)
		// Not nil, which would be null.
		return append([]byte{}, b...), err
	}
	kind, text, ok := strings.Cut(word, ":")
	if !ok {
		return nil, fmt.Errorf("transcript: %q is not type:value", word)
	}
	switch kind {
	// A set is written as a list too: the encoding is the same.
	case "list":
		return encodeList(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), 1)
	case "map":
		return encodeList(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), 2)
	case "fill":
		// At most a megabyte.
		n, err := strconv.ParseUint(text, 10, 20)
		return bytes.Repeat([]byte{'a'}, int(n)), err
	}
	if kind == "text" {
		return []byte(strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(text, "'"), "'"), "''", "'")), nil
	}
	return encodeScalar(kind, text)
}

// encodeList encodes lists and sets, and maps as the list of their keys and values with half the count: perEntry is 2.
// The length of a null element is -1; unset is written as null, too.
func encodeList(inner string, perEntry int) ([]byte, error) {
	values, err := parseBinds(inner)
	if err != nil {
		return nil, err
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(values)/perEntry))
	for _, v := range values {
		if v.Bytes == nil {
			b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
			continue
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(v.Bytes))), v.Bytes...)
	}
	return b, nil
}

// encodeScalar encodes a value of a type with a fixed form, or an integer of any size. A boolean other than true is
// false, and dates, times and timestamps are numbers as on the wire.
func encodeScalar(kind, text string) ([]byte, error) {
	switch kind {
	case "boolean":
		if text == "true" {
			return []byte{1}, nil
		}
		return []byte{0}, nil
	case "float":
		f, err := strconv.ParseFloat(text, 32)
		return binary.BigEndian.AppendUint32(nil, math.Float32bits(float32(f))), err
	case "double":
		f, err := strconv.ParseFloat(text, 64)
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(f)), err
	case "uuid", "timeuuid":
		return hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	case "inet":
		a, err := netip.ParseAddr(text)
		return a.AsSlice(), err
	}
	width, ok := map[string]int{"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "timestamp": 8, "time": 8,
		"date": 4, "varint": 0}[kind]
	n, isInt := new(big.Int).SetString(text, 10)
	if !ok || !isInt {
		return nil, fmt.Errorf("transcript: cannot encode %s:%s", kind, text)
	}
	// A varint has room for the sign. -128, -32768 and so on get one byte more than Java's BigInteger gives them.
	if width == 0 {
		width = n.BitLen()/8 + 1
	}
	// Modulo 2^n gives the two's complement of negative numbers.
	mod := new(big.Int).Lsh(big.NewInt(1), uint(8*width))
	return new(big.Int).Mod(n, mod).FillBytes(make([]byte, width)), nil
}
