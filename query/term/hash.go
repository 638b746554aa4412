package term

import "crypto/md5" //nolint:gosec // an id, not a secret

// HashSpecs returns a hash that changes if the name or type of a column changes. The name of a class contains the
// fields of a user-defined type, which ALTER TYPE changes, unlike the type's CQL form. The separators make
// concatenations of different columns differ. Clients treat the id as opaque, so it need not equal Cassandra's.
func HashSpecs(columns []Spec) []byte {
	h := md5.New() //nolint:gosec // an id, not a secret
	for i := range columns {
		h.Write([]byte(columns[i].Name))
		h.Write([]byte{0})
		if t := columns[i].Type; len(t.Elems()) > 0 {
			h.Write([]byte(t.MarshalClass()))
		} else { // the name of a native type identifies it without an allocation
			h.Write([]byte(t.String()))
		}
		h.Write([]byte{0, 0})
	}
	return h.Sum(nil)
}
