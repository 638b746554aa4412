package system

import (
	"maps"

	"cqld/schema"
)

// annotations read the comments, or the security labels, of the objects of a keyspace. An empty text means none. One
// function fills both tables, which differ only in the text that they show. keyspace takes the name of a type, and of a
// field of it; both empty mean the keyspace itself.
type annotations struct {
	keyspace func(k *schema.Keyspace, typeName, field string) string
	table    func(*schema.Table) string
	column   func(*schema.Column) string
}

// commentsOf reads what COMMENT ON has set. A table's comment is one of its options.
func commentsOf() annotations {
	return annotations{(*schema.Keyspace).Comment, func(t *schema.Table) string { return t.Options.Comment },
		(*schema.Column).Comment}
}

// labelsOf reads what SECURITY LABEL has set.
func labelsOf() annotations {
	return annotations{(*schema.Keyspace).Label, func(t *schema.Table) string { return t.Options.Label },
		(*schema.Column).Label}
}

// commentRows adds the rows of system_views.schema_comments or schema_security_labels. Views have neither.
func (s *Source) commentRows(b *builder, column string, of annotations) {
	s.keyspaces(false, func(k *schema.Keyspace) {
		// The four name columns are the clustering, so a part that an object does not have is empty and not null.
		add := func(object, value string, parts values) {
			// Objects without a comment or label have no row.
			if value == "" {
				return
			}
			row := values{"object_type": text(object), "keyspace_name": text(k.Name), "table_name": text(""),
				"column_name": text(""),
				"udt_name":    text(""), "field_name": text(""), column: text(value)}
			maps.Copy(row, parts)
			b.add(row)
		}
		add("KEYSPACE", of.keyspace(k, "", ""), nil)
		for _, name := range k.TypeNames() {
			add("UDT", of.keyspace(k, name, ""), values{"udt_name": text(name)})
			for _, field := range k.Type(name).FieldNames() {
				add("FIELD", of.keyspace(k, name, field), values{"udt_name": text(name), "field_name": text(field)})
			}
		}
		for _, name := range k.TableNames() {
			t := k.Table(name)
			add("TABLE", of.table(t), values{"table_name": text(name)})
			for _, c := range t.Columns() {
				add("COLUMN", of.column(c), values{"table_name": text(name), "column_name": text(c.Name)})
			}
		}
	})
}
