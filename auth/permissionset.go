package auth

import "strings"

// PermissionSet is a set of permissions. The zero value is empty. Bit p is set if the set contains Permission p; bit 0
// is not used. Encodings contain the number.
type PermissionSet uint16

// NewPermissionSet returns the set of these permissions.
func NewPermissionSet(list ...Permission) PermissionSet {
	var s PermissionSet
	for _, p := range list {
		s |= 1 << p
	}
	return s
}

// Has reports whether p is in the set.
func (s PermissionSet) Has(p Permission) bool { return s&(1<<p) != 0 }

// List returns the permissions in the order of their values, which is Cassandra's.
func (s PermissionSet) List() []Permission {
	var out []Permission
	for _, p := range Permissions() {
		if s.Has(p) {
			out = append(out, p)
		}
	}
	return out
}

// String returns the permissions separated by ", ".
func (s PermissionSet) String() string {
	var names []string
	for _, p := range s.List() {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}
