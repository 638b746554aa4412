package odata

import (
	"bytes"
	"math"
	"strconv"
)

// AppendFilter appends the text of a $filter, which ParseFilter parses to an equal Expr. nil becomes true. It is used
// by clients of the package; the server only parses. Parentheses that the original had are not kept. For example:
//
//	(PartitionKey eq 'p') and (not (Age gt 5L))
func AppendFilter(dst []byte, filter Expr) []byte {
	switch x := filter.(type) {
	case *Comparison:
		return x.append(dst)
	// Operands are always in parentheses, so the text does not depend on precedence.
	case *And:
		dst = append(appendNested(dst, x.Left), " and "...)
		return appendNested(dst, x.Right)
	case *Or:
		dst = append(appendNested(dst, x.Left), " or "...)
		return appendNested(dst, x.Right)
	case *Not:
		return appendNested(append(dst, "not "...), x.X)
	case *Constant:
		return strconv.AppendBool(dst, x.True)
	}
	// Both nil and an unknown type.
	return append(dst, "true"...)
}

// appendNested appends an operand in parentheses.
func appendNested(dst []byte, x Expr) []byte {
	return append(AppendFilter(append(dst, '('), x), ')')
}

// append appends a comparison, with the property first. Functions are written as in OData 3: startswith(p,'x'),
// contains(p,'x').
func (c *Comparison) append(dst []byte) []byte {
	// Functions have the property as first argument.
	switch c.Op {
	case StartsWith, Contains:
		dst = append(dst, c.Op.String()...)
		dst = append(dst, '(')
		dst = append(dst, c.Property...)
		dst = append(dst, ',')
		return append(c.Value.AppendLiteral(dst), ')')
	}
	// Names of properties need no quoting.
	dst = append(dst, c.Property...)
	dst = append(dst, ' ')
	dst = append(dst, c.Op.String()...)
	return c.Value.AppendLiteral(append(dst, ' '))
}

// String returns the operator's keyword. Zero is shown as "?".
func (op Op) String() string {
	//exhaustive:enforce
	switch op {
	case Eq:
		return "eq"
	case Ne:
		return "ne"
	case Gt:
		return "gt"
	case Ge:
		return "ge"
	case Lt:
		return "lt"
	case Le:
		return "le"
	case StartsWith:
		return "startswith"
	case Contains:
		return "contains"
	}
	return "?"
}

// AppendLiteral appends a value as a $filter literal. It is the inverse of the lexer. A value without a type becomes a
// single quotation mark, which does not parse. For example:
//
//	'it''s'  X'00ff'  true  datetime'2021-05-26T15:48:07.0454448Z'  1.5  5  5L
func (v *Value) AppendLiteral(dst []byte) []byte {
	//exhaustive:enforce
	switch v.Type {
	case String:
		dst = append(dst, '\'')
		// A quotation mark is doubled within a string.
		dst = append(dst, bytes.ReplaceAll(v.Bytes, []byte("'"), []byte("''"))...)
	case Binary:
		dst = append(dst, "X'"...)
		for _, b := range v.Bytes {
			dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
		}
	case Boolean:
		return strconv.AppendBool(dst, v.Int != 0)
	case DateTime:
		// The final quotation mark is appended below.
		dst = AppendDateTime(append(dst, "datetime'"...), v.Int)
	case Double:
		// The names of $filter differ from the names in JSON.
		switch {
		case math.IsInf(v.Float, 1):
			return append(dst, "INF"...)
		case math.IsInf(v.Float, -1):
			return append(dst, "-INF"...)
		case math.IsNaN(v.Float):
			return append(dst, "NaN"...)
		}
		return appendDouble(dst, v.Float)
	case GUID:
		dst = appendGUID(append(dst, "guid'"...), v.Bytes)
	case Int32:
		return strconv.AppendInt(dst, v.Int, 10)
	case Int64:
		// The suffix L distinguishes a small Int64 from an Int32.
		return append(strconv.AppendInt(dst, v.Int, 10), 'L')
	}
	return append(dst, '\'')
}
