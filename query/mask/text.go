package mask

import (
	"encoding/hex"

	"cqld/schema"
	"cqld/types"
)

// ArgumentTypes returns the types of the arguments of a column's mask. The masked value is not among them. The result
// has one type for each argument of the mask. If the types cannot be decoded, it has fewer, and Compile shows null
// instead of the values.
func ArgumentTypes(c *schema.Column) []*types.Type {
	var all []*types.Type
	for _, class := range c.Mask.Types {
		t, err := types.ParseDeclaredClass(class)
		if err != nil {
			return nil
		}
		all = append(all, t)
	}
	// Native masks store no types. The last arguments of mask_inner, mask_outer and mask_hash may be omitted.
	switch c.Mask.Function {
	case "mask_replace":
		all = []*types.Type{c.Type}
	case "mask_inner", "mask_outer":
		all = []*types.Type{types.Native(types.Int), types.Native(types.Int), types.Native(types.Text)}
	case "mask_hash":
		all = []*types.Type{types.Native(types.Text)}
	}
	return all[:min(len(all), len(c.Mask.Args))]
}

// Text returns the mask of a column in the form of DESCRIBE: " MASKED WITH system.mask_inner(1, null)", or an empty
// string if the column has none.
func Text(c *schema.Column) string {
	if c.Mask == nil {
		return ""
	}
	keyspace := "system"
	if c.Mask.Keyspace != "" {
		keyspace = types.QuoteName(c.Mask.Keyspace)
	}
	b := []byte(" MASKED WITH " + keyspace + "." + types.QuoteName(c.Mask.Function) + "(")
	for i, t := range ArgumentTypes(c) {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = t.AppendLiteral(b, c.Mask.Args[i])
	}
	return string(append(b, ')'))
}

// ValueText returns an argument as system_schema.column_masks shows it: collections and vectors as hexadecimal digits,
// the fields of tuples and user-defined types separated by colons, and null as an empty text. v is in wire form.
func ValueText(t *types.Type, v []byte) string {
	switch {
	case v == nil:
		return ""
	case t.Kind().IsCollection(), t.Kind() == types.Vector, t.Kind() == types.Blob:
		return hex.EncodeToString(v)
	case t.Kind() == types.Tuple, t.Kind() == types.UDT:
		return partsText(t, v)
	}
	return string(t.AppendText(nil, v))
}

// partsText returns the fields of a tuple or user-defined type: null as @, and with @ and colons in values escaped.
func partsText(t *types.Type, v []byte) string {
	var out []byte
	for p := t.Parts(v); p.Next(); {
		if p.Index() > 0 {
			out = append(out, ':')
		}
		// A null field is an @, which is escaped in values.
		if p.Bytes() == nil {
			out = append(out, '@')
			continue
		}
		for _, c := range []byte(ValueText(p.Type(), p.Bytes())) {
			if c == ':' || c == '@' {
				out = append(out, '\\')
			}
			out = append(out, c)
		}
	}
	return string(out)
}
