package cql

import "strconv"

// appendType appends a type as CQL text. Frozen encloses the whole type, as the builder reads it.
func appendType(dst []byte, t *TypeExpr) []byte {
	if t.Frozen {
		dst = append(dst, "frozen<"...)
	}
	//exhaustive:enforce
	switch t.Kind {
	case TypeNative:
		// Never quoted: the grammar lists these names.
		dst = append(dst, t.Name...)
	case TypeList:
		dst = appendTypeArgs(dst, "list", t)
	case TypeSet:
		dst = appendTypeArgs(dst, "set", t)
	case TypeMap:
		dst = appendTypeArgs(dst, "map", t)
	case TypeTuple:
		dst = appendTypeArgs(dst, "tuple", t)
	case TypeVector:
		dst = appendTypeArgs(dst, "vector", t)
	case TypeUser:
		dst = appendTypeName(dst, QualifiedName{Keyspace: t.Keyspace, Name: t.Name})
	case TypeCustom:
		// A Java class name is a string literal in CQL.
		dst = appendString(dst, t.Custom)
	case TypeInvalid:
		dst = append(dst, '?')
	}
	if t.Frozen {
		dst = append(dst, '>')
	}
	return dst
}

// appendTypeArgs appends name<args>, with the dimensions of a vector as the last argument.
func appendTypeArgs(dst []byte, name string, t *TypeExpr) []byte {
	dst = append(dst, name...)
	dst = append(dst, '<')
	for i := range t.Args {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendType(dst, &t.Args[i])
	}
	if t.Kind == TypeVector {
		dst = append(dst, ", "...)
		dst = strconv.AppendInt(dst, int64(t.Dimensions), 10)
	}
	return append(dst, '>')
}
