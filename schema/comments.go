package schema

import (
	"maps"
	"strings"
)

// Comment sets the comment on a keyspace, on one of its types (Type is set), or on a field of a type (both are set), or
// its security label. An empty Text removes it. Comments on tables and columns are options and attributes.
type Comment struct {
	// Type and Field are names as stored. Field without Type does not occur.
	Type, Field, Text string
	// Label means that Text is a security label, not a comment.
	Label bool `json:",omitempty"`
}

// commentKey identifies the object of a comment or label within its keyspace. Names contain no NUL. For the keyspace
// itself, both names are empty.
//
//	keyspace   "\x00"
//	type u     "u\x00"
//	field u.f  "u\x00f"
func commentKey(typeName, field string) string { return typeName + "\x00" + field }

// remarks are comments and security labels by commentKey. The maps are replaced, never modified, because clones of a
// keyspace share them. A nil map is empty.
type remarks struct{ comments, labels map[string]string }

// Comment returns the comment on the keyspace (typeName and field are empty), on a type (field is empty) or on a field,
// or an empty string.
func (r *remarks) Comment(typeName, field string) string {
	return r.comments[commentKey(typeName, field)]
}

// Label returns the security label of the keyspace, a type or a field, or an empty string. See Comment.
func (r *remarks) Label(typeName, field string) string { return r.labels[commentKey(typeName, field)] }

// setComment changes k, which is a clone. It fails if the object does not exist.
func (k *Keyspace) setComment(c *Comment) error {
	if t := k.types[c.Type]; c.Type != "" {
		switch {
		case t == nil:
			return invalidf("Type '%s.%s' doesn't exist", k.Name, c.Type)
		case c.Field != "" && t.FieldIndex(c.Field) < 0:
			return invalidf("Field '%s' doesn't exist in type '%s.%s'", c.Field, k.Name, c.Type)
		}
	}
	// The clone shares the map with other schemas.
	set := &k.comments
	if c.Label {
		set = &k.labels
	}
	all := maps.Clone(*set)
	if all == nil {
		all = map[string]string{}
	}
	all[commentKey(c.Type, c.Field)] = c.Text
	// Empty texts are not stored, so equal remarks have equal maps (sameComments).
	if c.Text == "" {
		delete(all, commentKey(c.Type, c.Field))
	}
	*set = all
	return nil
}

// renameFieldComments moves the comments and labels of fields of a type to their new names, in the order of the
// renames. r must belong to a clone.
//
//	RENAME a TO b AND b TO c   the comment on a moves to c
func (r *remarks) renameFieldComments(typeName string, renames []Rename) {
	for _, set := range []*map[string]string{&r.comments, &r.labels} {
		// The clone of a nil map is nil, and contains nothing to rename.
		all := maps.Clone(*set)
		for _, x := range renames {
			from, to := commentKey(typeName, x.From), commentKey(typeName, x.To)
			if text, ok := all[from]; ok {
				delete(all, from)
				all[to] = text
			}
		}
		*set = all
	}
}

// dropTypeComments removes the comments and labels of a type and its fields, so a later type with the same name has
// none.
func (r *remarks) dropTypeComments(typeName string) {
	for _, set := range []*map[string]string{&r.comments, &r.labels} {
		all := maps.Clone(*set)
		// The NUL at the end of the prefix excludes types whose names merely begin with this name.
		maps.DeleteFunc(all, func(key, _ string) bool { return strings.HasPrefix(key, commentKey(typeName, "")) })
		*set = all
	}
}

// sameComments reports whether r and o have the same comments and labels, on all objects.
func (r *remarks) sameComments(o *remarks) bool {
	return maps.Equal(r.comments, o.comments) && maps.Equal(r.labels, o.labels)
}

// sameTypeComments reports whether a type and its fields have the same comments and labels in both keyspaces. It
// compares the fields that k has.
func (k *Keyspace) sameTypeComments(o *Keyspace, typeName string) bool {
	// The empty field name stands for the type itself.
	for _, field := range append([]string{""}, k.types[typeName].FieldNames()...) {
		if k.Comment(typeName, field) != o.Comment(typeName, field) ||
			k.Label(typeName, field) != o.Label(typeName, field) {
			return false
		}
	}
	return true
}
