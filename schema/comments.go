package schema

import (
	"maps"
	"strings"
)

// Comment sets the comment on a keyspace, on one of its types (Type is set), or on a field of a type (both are set). An empty Text
// removes it.
type Comment struct{ Type, Field, Text string }

// commentKey identifies the object of a comment within its keyspace.
func commentKey(typeName, field string) string { return typeName + "\x00" + field }

// Comment returns the comment on the keyspace (typeName and field are empty), on a type (field is empty) or on a field, or an empty
// string.
func (k *Keyspace) Comment(typeName, field string) string {
	return k.comments[commentKey(typeName, field)]
}

// setComment changes k, which is a clone.
func (k *Keyspace) setComment(c *Comment) error {
	if t := k.types[c.Type]; c.Type != "" {
		switch {
		case t == nil:
			return invalidf("Type '%s.%s' doesn't exist", k.Name, c.Type)
		case c.Field != "" && t.FieldIndex(c.Field) < 0:
			return invalidf("Field '%s' doesn't exist in type '%s.%s'", c.Field, k.Name, c.Type)
		}
	}
	all := maps.Clone(k.comments)
	if all == nil {
		all = map[string]string{}
	}
	all[commentKey(c.Type, c.Field)] = c.Text
	if c.Text == "" {
		delete(all, commentKey(c.Type, c.Field))
	}
	k.comments = all
	return nil
}

// renameFieldComments moves the comments on fields of a type to their new names. It changes k, which is a clone.
func (k *Keyspace) renameFieldComments(typeName string, renames []Rename) {
	all := maps.Clone(k.comments)
	for _, r := range renames {
		from, to := commentKey(typeName, r.From), commentKey(typeName, r.To)
		if text, ok := all[from]; ok {
			delete(all, from)
			all[to] = text
		}
	}
	k.comments = all
}

// dropTypeComments removes the comments on a type and its fields. It changes k, which is a clone.
func (k *Keyspace) dropTypeComments(typeName string) {
	k.comments = maps.Clone(k.comments)
	maps.DeleteFunc(k.comments, func(key, _ string) bool { return strings.HasPrefix(key, commentKey(typeName, "")) })
}

// sameTypeComments reports whether a type has the same comments in both keyspaces.
func (k *Keyspace) sameTypeComments(o *Keyspace, typeName string) bool {
	if k.Comment(typeName, "") != o.Comment(typeName, "") {
		return false
	}
	for _, field := range k.types[typeName].FieldNames() {
		if k.Comment(typeName, field) != o.Comment(typeName, field) {
			return false
		}
	}
	return true
}
