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

// attributes sets the attributes of a new column.
func (d *Definer) attributes(keyspace, table string, spec *schema.ColumnSpec, def *cql.ColumnDefinition) error {
	all := def.Constraints
	if def.NotNull {
		required := cql.Constraint{Function: cql.NotNullConstraint}
		if slices.ContainsFunc(all, func(c cql.Constraint) bool { return c.Function == required.Function }) {
			return invalid.Errorf("Duplicate definition of NOT NULL constraint")
		}
		all = append(all[:len(all):len(all)], required)
	}
	col := &schema.Column{Name: spec.Name, Kind: spec.Kind, Type: spec.Type}
	check, err := constraint.Define(keyspace, table, col, all)
	if err != nil {
		return err
	}
	value, err := d.defaultText(keyspace, col, def.Default)
	if err != nil {
		return err
	}
	if check != "" || value != "" {
		spec.Attributes = &schema.Attributes{Check: check, Default: value}
	}
	return nil
}

// defaultText checks the term of DEFAULT, and returns it as it is stored; nil has no text.
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
	if l, ok := value.(*cql.Literal); ok && l.Kind == cql.LiteralNull {
		return "", invalid.Errorf("The DEFAULT of column '%s' is null, which it has without a DEFAULT", col.Name)
	}
	c := &term.Compiler{Schema: d.Schema, Functions: d.Functions, ResolveType: ResolveType, Keyspace: keyspace}
	if _, err := c.Term(value, term.Spec{Keyspace: keyspace, Name: col.Name, Type: col.Type}); err != nil {
		return "", err
	}
	if len(c.Markers) > 0 {
		return "", invalid.Errorf("Bind variables cannot be used in the DEFAULT of column '%s'", col.Name)
	}
	return cql.FormatTerm(value), nil
}

// alterConstraints defines ALTER c CHECK … and ALTER c DROP CHECK.
func (d *Definer) alterConstraints(c *schema.AlterTable, t *schema.Table, a *cql.AlterColumnConstraints) error {
	c.Attributes = &schema.AttributesChange{Column: a.Column, IfExists: a.IfExists, Check: new(string)}
	col := t.Column(a.Column)
	if col == nil {
		return nil // Apply returns this error
	}
	var err error
	*c.Attributes.Check, err = constraint.Define(c.Keyspace, c.Table, col, a.Constraints)
	return err
}

// renames returns the changes of names, and of the constraints that contain them.
func renames(t *schema.Table, a *cql.RenameColumns) (out []schema.Rename, err error) {
	for _, r := range a.Renames {
		change := schema.Rename{From: r.From, To: r.To}
		if col := t.Column(r.From); col != nil && col.CheckText() != "" {
			if change.Check, err = constraint.Renamed(col, r.To); err != nil {
				return nil, err
			}
		}
		out = append(out, change)
	}
	return out, nil
}

// alterDefault defines ALTER c SET DEFAULT … and ALTER c DROP DEFAULT.
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

// The bounds of comments and security labels in Cassandra 6, in UTF-16 code units.
const (
	commentLengthMax = 128
	labelLengthMax   = 48
)

// commentOn defines COMMENT ON and SECURITY LABEL ON. Null removes a comment or label.
func (d *Definer) commentOn(stmt *cql.CommentOn) Definition {
	if stmt.Kind == cql.CommentKeyspace {
		return d.commentOnKeyspace(stmt, stmt.Name.Name)
	}
	keyspace, err := d.KeyspaceOf(stmt.Name)
	if err != nil {
		return refuse(err)
	}
	if stmt.Kind == cql.CommentType || stmt.Kind == cql.CommentField {
		return d.commentOnKeyspace(stmt, keyspace)
	}
	name := stmt.Name.Name
	if err := mayChange(keyspace, "ALTER", "table "+keyspace+"."+name); err != nil {
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
	case t.View != nil:
		return refuse(invalid.Errorf("Cannot set %s on non-regular table '%s.%s'", commentName(stmt), keyspace, name))
	case stmt.Kind == cql.CommentColumn && t.Column(stmt.Member) == nil:
		return refuse(invalid.Errorf("Column '%s' doesn't exist in table '%s.%s'", stmt.Member, keyspace, name))
	}
	c := &schema.AlterTable{Keyspace: keyspace, Table: name}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Updated, Target: schema.TargetTable,
		Keyspace: keyspace, Name: name}}
	def.Warnings = providerWarnings(stmt)
	switch {
	case stmt.Kind == cql.CommentColumn && stmt.Label:
		c.Attributes = &schema.AttributesChange{Column: stmt.Member, Label: &stmt.Comment.Text}
	case stmt.Kind == cql.CommentColumn:
		c.Attributes = &schema.AttributesChange{Column: stmt.Member, Comment: &stmt.Comment.Text}
	case stmt.Label:
		c.Options, c.Set = t.Options, []string{schema.LabelOption}
		c.Options.Label = stmt.Comment.Text
	default:
		c.Options, c.Set = t.Options, []string{"comment"}
		c.Options.Comment = stmt.Comment.Text
	}
	return def
}

// commentOnKeyspace defines the comment or label of a keyspace, of a type of it, or of a field of such a type.
func (d *Definer) commentOnKeyspace(stmt *cql.CommentOn, keyspace string) Definition {
	comment := schema.Comment{Text: stmt.Comment.Text, Label: stmt.Label}
	event := schema.Event{Change: schema.Updated, Target: schema.TargetKeyspace, Keyspace: keyspace}
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

// commentName returns what a statement sets, as messages name it.
func commentName(stmt *cql.CommentOn) string {
	if stmt.Label {
		return "security label"
	}
	return "comment"
}

// checkComment refuses texts that are empty or too long.
func checkComment(stmt *cql.CommentOn) error {
	most := commentLengthMax
	if stmt.Label {
		most = labelLengthMax
	}
	if stmt.Comment.Kind != cql.LiteralString {
		return nil
	}
	switch n := len(utf16.Encode([]rune(stmt.Comment.Text))); {
	case n == 0:
		return invalid.Errorf("Cannot set %s to empty string", commentName(stmt))
	case n > most:
		return invalid.Errorf("%s length (%d) exceeds maximum allowed length (%d)", commentName(stmt), n, most)
	}
	return nil
}

// providerWarnings returns Cassandra's warning about FOR, which has no effect.
func providerWarnings(stmt *cql.CommentOn) []string {
	if stmt.Provider == "" {
		return nil
	}
	return []string{"Provider functionality not implemented. Provider '" + stmt.Provider +
		"' will not be loaded or invoked."}
}
