package cql

import "strconv"

func appendType(dst []byte, t *TypeExpr) []byte {
	if t.Frozen {
		dst = append(dst, "frozen<"...)
	}
	//exhaustive:enforce
	switch t.Kind {
	case TypeNative:
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
		dst = appendString(dst, t.Custom)
	case TypeInvalid:
		dst = append(dst, '?')
	}
	if t.Frozen {
		dst = append(dst, '>')
	}
	return dst
}

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
