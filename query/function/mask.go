package function

import (
	"crypto/md5" //nolint:gosec // mask_hash supports it
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"strings"
	"unicode/utf8"

	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/types"
)

// addMask adds the functions of dynamic data masking (CEP-20), which are also ordinary functions. Package query/mask
// applies them to columns for roles without UNMASK.
func (l *Library) addMask() {
	// The results of these masks have the type of the argument, so that a masked column keeps its type.
	l.makeMask("mask_null", 1, func(t *types.Type) *types.Type { return t },
		func(*types.Type, [][]byte) ([]byte, error) {
			return nil, nil
		})
	// Not strict, because null is masked as well.
	l.makeMask("mask_default", 1, func(t *types.Type) *types.Type { return t },
		func(t *types.Type, _ [][]byte) ([]byte, error) {
			return masked(t), nil
		})
	// Not strict, because null is replaced as well. The replacement has the type of the value.
	l.make("mask_replace", func(name string, c Call) (*Function, error) {
		if len(c.Args) != 2 {
			return nil, invalid.Errorf("Invalid number of arguments for function system.%s(any, any)", name)
		}
		t := c.Args[0].Type()
		if t == nil {
			return nil, cannotInfer(c.Args[0], name+"(any, any)")
		}
		return &Function{Name: name, Args: []*types.Type{t, t}, Returns: t,
			Eval: func(_ Env, a [][]byte) ([]byte, error) { return a[1], nil }}, nil
	})
	l.makeTextMask("mask_inner", true)
	l.makeTextMask("mask_outer", false)
	// The result is a blob for every type of argument.
	l.make("mask_hash", func(name string, c Call) (*Function, error) {
		if len(c.Args) == 0 || len(c.Args) > 2 {
			return nil, invalid.Errorf("Invalid number of arguments for function system.%s(any, [text])", name)
		}
		// The argument may have any type, because the digest covers its bytes.
		if c.Args[0].Type() == nil {
			return nil, cannotInfer(c.Args[0], name+"(any, [text])")
		}
		f := &Function{Name: name, Args: []*types.Type{c.Args[0].Type()}, Returns: native(types.Blob), Eval: maskHash}
		if len(c.Args) == 2 {
			f.Args = append(f.Args, native(types.Text))
		}
		return f, nil
	})
}

// IsMask reports whether a native function may be attached to columns as their mask. User-defined functions are never
// masks.
func IsMask(name string) bool {
	switch name {
	case "mask_null", "mask_default", "mask_replace", "mask_inner", "mask_outer", "mask_hash":
		return true
	}
	return false
}

// makeTextMask adds mask_inner or mask_outer. If inner is true, the function replaces the characters between the
// margins (mask_inner), and otherwise the characters in the margins (mask_outer). For example mask_inner('abcdef', 1,
// 2) is a***ef, and mask_outer('abcdef', 1, 2) is *bcd**.
func (l *Library) makeTextMask(name string, inner bool) {
	l.make(name, func(name string, c Call) (*Function, error) {
		if len(c.Args) != 3 && len(c.Args) != 4 {
			return nil, invalid.Errorf("Invalid number of arguments for function system.%s([text|varchar|ascii], int, "+
				"int, [text])", name)
		}
		t := c.Args[0].Type()
		switch {
		// A bind marker gets the type text.
		case t == nil:
			t = native(types.Text)
		case t.Kind() != types.Text && t.Kind() != types.Ascii:
			return nil, maskArgument(name, "[text|varchar|ascii]", c.Args[0])
		}
		// The padding is the optional fourth argument.
		f := &Function{Name: name, Args: []*types.Type{t, native(types.Int), native(types.Int),
			native(types.Text)}[:len(c.Args)], Returns: t,
			Eval: func(_ Env, a [][]byte) ([]byte, error) { return maskText(inner, a) }}
		// Check the margins and the padding. A bind marker or null has no type and matches.
		for i, to := range f.Args[1:] {
			if a := c.Args[i+1]; a.Type() != nil && Assignable(a.Type(), to) == NoMatch {
				return nil, maskArgument(name, to.String(), a)
			}
		}
		return f, nil
	})
}

// maskArgument returns the error for an argument of another type.
func maskArgument(name, want string, got Arg) error {
	return invalid.Errorf("Function system.%s requires an argument of type %s, but found argument %s of type %s", name,
		want, got, got.Type())
}

// makeMask adds a mask of n arguments whose first one may have any type. returns gives the type of the result for the
// type of the argument.
func (l *Library) makeMask(name string, n int, returns func(*types.Type) *types.Type,
	f func(*types.Type, [][]byte) ([]byte, error)) {
	l.make(name, func(name string, c Call) (*Function, error) {
		if len(c.Args) != n {
			return nil, invalid.Errorf("Invalid number of arguments for function system.%s(any)", name)
		}
		t := c.Args[0].Type()
		if t == nil {
			return nil, cannotInfer(c.Args[0], name+"(any)")
		}
		return &Function{Name: name, Args: []*types.Type{t}, Returns: returns(t),
			Eval: func(_ Env, a [][]byte) ([]byte, error) { return f(t, a) }}, nil
	})
}

// masked returns the default mask of a type. A collection is empty; a tuple has the masks of its fields. A frozen and
// a multi-cell type have the same mask. The values equal the results of AbstractType.getMaskedValue in Cassandra.
func masked(t *types.Type) []byte {
	switch t.Kind() {
	case types.Ascii, types.Text:
		return []byte("****")
	case types.Boolean:
		return []byte{0}
	// The default mask of a blob is empty, too.
	case types.Blob, types.List, types.Set, types.Map:
		if t.Kind().IsCollection() {
			return wire.AppendInt32(nil, 0)
		}
		return []byte{}
	case types.Decimal:
		return []byte{0, 0, 0, 0, 0}
	case types.Float, types.Double:
		return t.AppendFloat64(nil, 0)
	case types.Date:
		// 1970-01-01: a date is stored as days since the epoch plus 2^31.
		return wire.AppendUint32(nil, 1<<31)
	case types.Duration:
		return types.DurationValue{}.Append(nil)
	case types.Inet:
		return []byte{0, 0, 0, 0}
	case types.Timestamp, types.Time:
		return wire.AppendInt64(nil, 0)
	case types.UUID:
		return make([]byte, 16)
	case types.Timeuuid:
		return types.AppendMinTimeuuid(nil, 0)
	// All elements of a vector have the same type.
	case types.Tuple, types.UDT, types.Vector:
		var parts [][]byte
		n := len(t.Elems())
		if t.Kind() == types.Vector {
			n = t.Dimensions()
		}
		// Each field has its own type; a vector has one for all elements.
		for i := range n {
			parts = append(parts, masked(t.Elems()[i%len(t.Elems())]))
		}
		v, _ := t.AppendParts(nil, parts)
		return v
	}
	// The remaining types are integers.
	return t.AppendInt64(nil, 0)
}

// maskText masks the text a[0]. a[1] and a[2] are the widths of the margins in characters, null is 0. a[3] is the
// padding. If both margins are null, all characters are inside.
func maskText(inner bool, a [][]byte) ([]byte, error) {
	if a[0] == nil {
		return nil, nil
	}
	// A null padding means the default.
	pad := "*"
	if len(a) == 4 && a[3] != nil {
		if pad = string(a[3]); utf8.RuneCountInString(pad) != 1 {
			return nil,
				invalid.Errorf("The padding argument for function system.%s should be single-character, but '%s' has "+
					"%d characters.", map[bool]string{true: "mask_inner", false: "mask_outer"}[inner], pad,
					utf8.RuneCountInString(pad))
		}
	}
	begin, _ := native(types.Int).Int64(a[1])
	end, _ := native(types.Int).Int64(a[2])
	// Margins are counted in characters. Each masked character is replaced by one padding character.
	runes := []rune(string(a[0]))
	var out strings.Builder
	// If the text is shorter than the margins, all of its characters are outside.
	for i, r := range runes {
		// Margins may overlap or be negative.
		outside := int64(i) < begin || int64(i) >= int64(len(runes))-end
		if outside != inner {
			out.WriteString(pad)
		} else {
			out.WriteRune(r)
		}
	}
	return []byte(out.String()), nil
}

// maskHash returns the digest of the value in wire form. The names of the algorithms are Java's.
func maskHash(_ Env, a [][]byte) ([]byte, error) {
	if a[0] == nil {
		return nil, nil
	}
	// Cassandra's default
	algorithm := "SHA-256"
	if len(a) == 2 && a[1] != nil {
		algorithm = string(a[1])
	}
	switch strings.ToUpper(algorithm) {
	case "SHA-256":
		h := sha256.Sum256(a[0])
		return h[:], nil
	case "SHA-512":
		h := sha512.Sum512(a[0])
		return h[:], nil
	case "SHA-384":
		h := sha512.Sum384(a[0])
		return h[:], nil
	case "SHA-224":
		h := sha256.Sum224(a[0])
		return h[:], nil
	case "SHA-1", "SHA":
		h := sha1.Sum(a[0]) //nolint:gosec // for mask_hash only; nothing relies on its strength
		return h[:], nil
	case "MD5":
		h := md5.Sum(a[0]) //nolint:gosec // for mask_hash only; nothing relies on its strength
		return h[:], nil
	}
	return nil, invalid.Errorf("Hash algorithm not found: %s", algorithm)
}
