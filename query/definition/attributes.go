package definition

import (
	"slices"
	"unicode/utf16"

	"cqld/cql"
	"cqld/query/constraint"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// attributes validates the CHECK constraints and the default of a new column and sets them on spec, in stored form.
// Without either, spec.Attributes stays nil. keyspace and table appear in messages; keyspace also resolves functions.
// NOT NULL with CHECK c > 0 is stored as "c > 0 AND NOT NULL".
func (d *Definer) attributes(keyspace, table string, spec *schema.ColumnSpec, def *cql.ColumnDefinition) error {
	all := def.Constraints
	// NOT NULL is also a constraint in CHECK: both spellings together are a duplicate.
	// NOT NULL is stored as a constraint among the others.
	if def.NotNull {
		required := cql.Constraint{Function: cql.NotNullConstraint}
		if slices.ContainsFunc(all, func(c cql.Constraint) bool { return c.Function == required.Function }) {
			return invalid.Errorf("Duplicate definition of NOT NULL constraint")
		}
		// Clipping the capacity makes append copy: it must not write into the parsed statement.
		all = append(all[:len(all):len(all)], required)
	}
	// The column has no id yet: only its name, kind and type matter for constraints.
	col := &schema.Column{Name: spec.Name, Kind: spec.Kind, Type: spec.Type}
	check, err := constraint.Define(keyspace, table, col, all)
	if err != nil {
		return err
	}
	// The default is not checked against the constraints: INSERT checks the values that it writes.
	value, err := d.defaultText(keyspace, col, def.Default)
	if err != nil {
		return err
	}
	if check != "" || value != "" {
		spec.Attributes = &schema.Attributes{Check: check, Default: value}
	}
	return nil
}

// defaultText validates the term of DEFAULT and returns its stored form: canonical CQL, which INSERT parses again. It
// returns "" for nil. Functions in the term are evaluated by each INSERT, not here.
func (d *Definer) defaultText(keyspace string, col *schema.Column, value cql.Term) (string, error) {
	if value == nil {
		return "", nil
	}
	switch {
	case col.Kind == schema.Static:
		return "", invalid.Errorf("Static column '%s' cannot have a DEFAULT: each INSERT of a row would set it",
			col.Name)
	case col.Type.Kind() == types.Counter:
		return "", invalid.Errorf("Counter column '%s' cannot have a DEFAULT", col.Name)
	}
	// A DEFAULT of NULL would have no effect: a missing value is null anyway.
	if l, ok := value.(*cql.Literal); ok && l.Kind == cql.LiteralNull {
		return "", invalid.Errorf("The DEFAULT of column '%s' is null, which it has without a DEFAULT", col.Name)
	}
	// Table is unset, so a default cannot refer to other columns; UserFunctions is unset, so it can call native
	// functions only.
	c := &term.Compiler{Schema: d.Schema, Functions: d.Functions, ResolveType: ResolveType, Keyspace: keyspace}
	if _, err := c.Term(value, term.Spec{Keyspace: keyspace, Name: col.Name, Type: col.Type}); err != nil {
		return "", err
	}
	// Markers compile, but no client can bind a value here.
	if len(c.Markers) > 0 {
		return "", invalid.Errorf("Bind variables cannot be used in the DEFAULT of column '%s'", col.Name)
	}
	return cql.FormatTerm(value), nil
}

// checkDefaults refuses a change of a user-defined type that would break the DEFAULT of a column. A DEFAULT is stored
// as CQL that may name the type or its fields, and each INSERT compiles it. verb describes the change in the message.
func checkDefaults(d *Definer, change schema.Change, verb, keyspace, name string) error {
	after := *d
	var err error
	if after.Schema, err = schema.Apply(d.Schema, change); err != nil || after.Schema == d.Schema {
		return nil // Apply returns this error
	}
	// A type can only be used in its own keyspace, so no other keyspace is searched.
	k := after.Schema.Keyspace(keyspace)
	for _, t := range k.Tables() {
		for _, col := range t.Columns() {
			if t.View != nil || col.DefaultText() == "" {
				continue
			}
			value, err := cql.ParseTerm(col.DefaultText())
			if err != nil {
				continue // INSERT reports it
			}
			// The column of the schema before the change has the type as it was. A DEFAULT that is already broken does
			// not block the change, because the change may repair it.
			before := d.Schema.Table(keyspace, t.Name).Column(col.Name)
			if _, err := d.defaultText(keyspace, before, value); err != nil {
				continue
			}
			if _, err := after.defaultText(keyspace, col, value); err != nil {
				return invalid.Errorf("Cannot %s user type '%s.%s': the DEFAULT of column '%s' of table %s.%s uses it",
					verb, keyspace, name, col.Name, keyspace, t.Name)
			}
		}
	}
	return nil
}

// alterConstraints defines ALTER c CHECK … and ALTER c DROP CHECK. DROP CHECK stores an empty text. Existing rows are
// not checked.
//
//	ALTER TABLE t ALTER c CHECK c > 0     replaces all constraints of c
//	ALTER TABLE t ALTER c DROP CHECK      removes them
func (d *Definer) alterConstraints(c *schema.AlterTable, t *schema.Table, a *cql.AlterColumnConstraints) error {
	// A pointer distinguishes an empty text, which removes the constraints, from no change.
	c.Attributes = &schema.AttributesChange{Column: a.Column, IfExists: a.IfExists, Check: new(string)}
	col := t.Column(a.Column)
	if col == nil {
		return nil // Apply returns this error
	}
	// Without constraints, as for DROP CHECK, Define returns an empty text.
	var err error
	*c.Attributes.Check, err = constraint.Define(c.Keyspace, c.Table, col, a.Constraints)
	return err
}

// renames returns the renamed columns, each with its rewritten constraint. A constraint is stored as text that contains
// the name of its column, so the text must be rewritten, too. Default values contain no names.
//
//	d int CHECK d > 0; RENAME d TO e   Check: e > 0
func renames(t *schema.Table, a *cql.RenameColumns) (out []schema.Rename, err error) {
	for _, r := range a.Renames {
		// Later renames of the statement may use the new name. Apply checks them in order.
		change := schema.Rename{From: r.From, To: r.To}
		// A missing column is not an error here: Apply reports it.
		if col := t.Column(r.From); col != nil && col.CheckText() != "" {
			if change.Check, err = constraint.Renamed(col, r.To); err != nil {
				return nil, err
			}
		}
		out = append(out, change)
	}
	return out, nil
}

// alterDefault defines ALTER c SET DEFAULT … and ALTER c DROP DEFAULT. DROP DEFAULT stores an empty text. Existing rows
// do not change, because defaults are applied by INSERT.
//
//	ALTER TABLE t ALTER c SET DEFAULT 1   for rows inserted from now on
//	ALTER TABLE t ALTER c DROP DEFAULT    INSERT leaves c null again
func (d *Definer) alterDefault(c *schema.AlterTable, t *schema.Table, a *cql.AlterColumnDefault) error {
	c.Attributes = &schema.AttributesChange{Column: a.Column, IfExists: a.IfExists, Default: new(string)}
	col := t.Column(a.Column)
	if col == nil {
		return nil // Apply returns this error
	}
	var err error
	*c.Attributes.Default, err = d.defaultText(c.Keyspace, col, a.Default)
	return err
}

// The bounds of comments and security labels in Cassandra 6, in UTF-16 code units: the length of a Java string.
const (
	commentLengthMax = 128
	labelLengthMax   = 48
)

// commentOn defines COMMENT ON and SECURITY LABEL ON. Null removes a comment or label: a null literal has an empty
// text. Each kind of object has its own change:
//
//	keyspace, type, field   schema.AlterKeyspace with Comment
//	table                   schema.AlterTable with the option comment, or schema.LabelOption
//	column                  schema.AlterTable with Attributes
func (d *Definer) commentOn(stmt *cql.CommentOn) Definition {
	if stmt.Kind == cql.CommentKeyspace {
		return d.commentOnKeyspace(stmt, stmt.Name.Name)
	}
	// Unlike the name of a keyspace, the other names are resolved against the keyspace in use.
	keyspace, err := d.KeyspaceOf(stmt.Name)
	if err != nil {
		return refuse(err)
	}
	if stmt.Kind == cql.CommentType || stmt.Kind == cql.CommentField {
		return d.commentOnKeyspace(stmt, keyspace)
	}
	name := stmt.Name.Name
	if err := mayChange(keyspace, "ALTER", "table "+keyspace+"."+name); err != nil {
		// The order of the errors is Cassandra's: permission on the object, form of the text, existence of the object.
		return refuse(err)
	}
	if err := checkComment(stmt); err != nil {
		return refuse(err)
	}
	t := d.Schema.Table(keyspace, name)
	switch {
	case d.Schema.Keyspace(keyspace) == nil:
		return refuse(invalid.Errorf("Keyspace '%s' doesn't exist", keyspace))
	case t == nil:
		return refuse(invalid.Errorf("Table '%s.%s' doesn't exist", keyspace, name))
	// Cassandra's message for a view, which it calls a non-regular table.
	case t.View != nil:
		return refuse(invalid.Errorf("Cannot set %s on non-regular table '%s.%s'", commentName(stmt), keyspace, name))
	case stmt.Kind == cql.CommentColumn && t.Column(stmt.Member) == nil:
		return refuse(invalid.Errorf("Column '%s' doesn't exist in table '%s.%s'", stmt.Member, keyspace, name))
	}
	// The table was found above, so the change needs no IF EXISTS.
	c := &schema.AlterTable{Keyspace: keyspace, Table: name}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Updated, Target: schema.TargetTable,
		Keyspace: keyspace, Name: name}}
	def.Warnings = providerWarnings(stmt)
	switch {
	// A column's label and comment are two attributes: setting one keeps the other.
	case stmt.Kind == cql.CommentColumn && stmt.Label:
		c.Attributes = &schema.AttributesChange{Column: stmt.Member, Label: &stmt.Comment.Text}
	case stmt.Kind == cql.CommentColumn:
		c.Attributes = &schema.AttributesChange{Column: stmt.Member, Comment: &stmt.Comment.Text}
	case stmt.Label:
		// Apply changes only the options that are listed in Set.
		c.Options, c.Set = t.Options, []string{schema.LabelOption}
		c.Options.Label = stmt.Comment.Text
	default:
		// COMMENT ON TABLE is another spelling of WITH comment = '…'.
		c.Options, c.Set = t.Options, []string{"comment"}
		c.Options.Comment = stmt.Comment.Text
	}
	return def
}

// commentOnKeyspace defines the comment or label of a keyspace, of a type in it, or of a field of such a type. Apply
// reports types and fields that do not exist.
func (d *Definer) commentOnKeyspace(stmt *cql.CommentOn, keyspace string) Definition {
	comment := schema.Comment{Text: stmt.Comment.Text, Label: stmt.Label}
	// The event names the object with the comment. The protocol has no event for a field, so its type is named.
	event := schema.Event{Change: schema.Updated, Target: schema.TargetKeyspace, Keyspace: keyspace}
	// Messages about a type name the resource "all tables in" its keyspace, as in Cassandra.
	what := "keyspace " + keyspace
	if stmt.Kind != cql.CommentKeyspace {
		comment.Type, comment.Field = stmt.Name.Name, stmt.Member
		event.Target, event.Name = schema.TargetType, stmt.Name.Name
		what = "all tables in " + keyspace
	}
	if err := mayChange(keyspace, "ALTER", what); err != nil {
		return refuse(err)
	}
	if err := checkComment(stmt); err != nil {
		return refuse(err)
	}
	if d.Schema.Keyspace(keyspace) == nil {
		return refuse(invalid.Errorf("Keyspace '%s' doesn't exist", keyspace))
	}
	return Definition{Change: &schema.AlterKeyspace{Keyspace: keyspace, Comment: &comment}, Event: event,
		Warnings: providerWarnings(stmt)}
}

// commentName returns how messages name what the statement sets: "comment" or "security label".
func commentName(stmt *cql.CommentOn) string {
	if stmt.Label {
		return "security label"
	}
	return "comment"
}

// checkComment refuses an empty or overlong comment or label. It accepts null, which removes them.
func checkComment(stmt *cql.CommentOn) error {
	most := commentLengthMax
	if stmt.Label {
		most = labelLengthMax
	}
	// The grammar has only strings and null here.
	if stmt.Comment.Kind != cql.LiteralString {
		return nil
	}
	// Java's length counts a character outside the basic multilingual plane as two.
	switch n := len(utf16.Encode([]rune(stmt.Comment.Text))); {
	case n == 0:
		return invalid.Errorf("Cannot set %s to empty string", commentName(stmt))
	case n > most:
		return invalid.Errorf("%s length (%d) exceeds maximum allowed length (%d)", commentName(stmt), n, most)
	}
	return nil
}

// providerWarnings returns Cassandra's warning about FOR, which has no effect. Without FOR it returns nil.
func providerWarnings(stmt *cql.CommentOn) []string {
	if stmt.Provider == "" {
		return nil
	}
	return []string{"Provider functionality not implemented. Provider '" + stmt.Provider +
		"' will not be loaded or invoked."}
}
