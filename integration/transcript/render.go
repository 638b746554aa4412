package transcript

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cqld/integration/cqlclient"
)

// run sends one statement and renders its answer, including all pages. Pages are separated by a line "-- next page".
func (rq *request) run(c *cqlclient.Conn, statement string) (string, error) {
	send := func(o cqlclient.Options) (*cqlclient.Answer, error) { return c.Query(statement, o) }
	if rq.prepared {
		// A statement that cannot be prepared shows the error of PREPARE.
		a, err := c.PrepareWith(statement, cqlclient.Options{Keyspace: rq.options.Keyspace})
		if err != nil || a.Err != nil {
			return rq.render(a), err
		}
		if rq.unknown {
			a.Prepared.ID = unknownID
		}
		send = func(o cqlclient.Options) (*cqlclient.Answer, error) { return c.Execute(a.Prepared, o) }
	}
	var pages []string
	o := rq.options
	// EXECUTE may name another keyspace than PREPARE, which the specification leaves open.
	o.Keyspace = cmp.Or(rq.executeKeyspace, o.Keyspace)
	for {
		a, err := send(o)
		if err != nil {
			return "", err
		}
		// Unless states are compared, a server may or may not send an empty page after the last row.
		if rq.states || len(pages) == 0 || len(a.Rows) > 0 || a.Err != nil {
			text, err := rq.withTrace(c, a)
			if err != nil {
				return "", err
			}
			pages = append(pages, text)
		}
		if a.PagingState == nil {
			return strings.Join(pages, "\n-- next page\n"), nil
		}
		// The server has chosen a page size itself, which another one may not.
		if rq.pageSize == 0 {
			return "", errors.New("transcript: an answer in pages, but no page size was given")
		}
		// A server that never ends its pages must not fill the memory.
		if len(pages) > 1000 {
			return "", errors.New("transcript: more than 1000 pages")
		}
		o.PagingState = a.PagingState
	}
}

// render renders one answer as text without a newline at the end. Every kind of answer begins with its own word, except
// rows, which begin with the columns. The forms are:
//
//	ok                                   no result
//	use ks                               a keyspace was set
//	created table ks.t                   a change of the schema
//	SYNTAX_ERROR: (the parser's text)    an error
//	k int | v text …                     rows
func (rq *request) render(a *cqlclient.Answer) string {
	if a == nil {
		return ""
	}
	var out []string
	// Warnings that servers send for different reasons are left out or replaced.
	for _, w := range a.Warnings {
		if !strings.HasPrefix(w, rareWarning) && !strings.HasPrefix(w, viewWarning) {
			out = append(out, "warning: "+vectorWarning.ReplaceAllString(w, vectorWarningHere))
		}
	}
	switch a.Kind {
	case cqlclient.Failed:
		out = append(out, renderError(a.Err))
	case cqlclient.Void:
		out = append(out, "ok")
	case cqlclient.SetKeyspace:
		out = append(out, "use "+a.Keyspace)
	case cqlclient.SchemaChange:
		out = append(out, strings.ToLower(a.Change[0]+" "+a.Change[1])+" "+strings.Join(a.Change[2:], "."))
	case cqlclient.Rows:
		out = append(out, rq.rows(a)...)
	}
	return strings.Join(out, "\n")
}

// parserMessage matches the start of a message of Cassandra's parser; another parser's text for the same error differs.
// The form is "line 1:14 no viable alternative at input …".
var parserMessage = regexp.MustCompile(`^line \d+:-?\d+ `)

// renderError renders an error without what depends on the parser or on hash tables. Codes, other messages and the
// fields of the code must be equal.
func renderError(e *cqlclient.Error) string {
	if parserMessage.MatchString(e.Message) {
		return "SYNTAX_ERROR: (the parser's text)"
	}
	return signatures.ReplaceAllStringFunc(e.Error(), sortSignatures)
}

// signatures matches a list of signatures in an error. Cassandra's order depends on its hash tables.
var signatures = regexp.MustCompile(`signatures: .*\)`)

// sortSignatures brings the signatures of functions into one order. The keyspace system is left out of their names.
func sortSignatures(list string) string {
	var sorted []string
	text := strings.TrimSuffix(strings.TrimPrefix(list, "signatures: "), ")")
	for _, s := range strings.Split(text, ", system.") {
		sorted = append(sorted, strings.TrimPrefix(s, "system."))
	}
	slices.Sort(sorted)
	return "signatures: " + strings.Join(sorted, ", ") + ")"
}

// viewWarning is the start of a warning that cqld does not send.
const viewWarning = "Materialized views are experimental"

// vectorWarning matches the start of Cassandra's warning about indexes on vectors. cqld sends another start, and the
// same list after it.
var vectorWarning = regexp.MustCompile(`(?s)^SAI ANN indexes on vector columns are experimental.*LOCAL_ONE\.`)

// vectorWarningHere is what cqld sends instead.
const vectorWarningHere = "SELECT queries with ORDER BY ... ANN OF on the indexed column do not support:"

// rareWarning is the start of a warning that Cassandra returns only for the first statement prepared after USE.
const rareWarning = "`USE <keyspace>` with prepared statements"

// rows renders the columns, one line for each row, and their number. A result without rows still shows its columns.
func (rq *request) rows(a *cqlclient.Answer) []string {
	head := make([]string, len(a.Columns))
	for i, c := range a.Columns {
		head[i] = c.Name + " " + c.Type.String()
	}
	out := []string{strings.Join(head, " | ")}
	if rq.header {
		return out
	}
	for _, row := range a.Rows {
		cells := make([]string, len(row))
		for i, b := range row {
			c := a.Columns[i]
			switch {
			case rq.mask[c.Name]:
				cells[i] = "<masked>"
			// Texts of several lines, such as the output of DESCRIBE, are readable without quotes.
			case b != nil && rq.raw && c.Type.String() == "text":
				cells[i] = string(b)
			default:
				cells[i] = c.Type.Text(b)
			}
		}
		out = append(out, strings.Join(cells, " | "))
	}
	return append(out, fmt.Sprintf("(%d rows)", len(a.Rows)))
}

// describePrepared renders the result of PREPARE; the drivers' tests check the ids. Metadata decides how drivers encode
// values, so it is compared in full: keyspace, table, name and type of each column. For example:
//
//	binds [ks.t.k int] key [0]
//	result [ks.t.k int, ks.t.v text]
func (rq *request) describePrepared(c *cqlclient.Conn, statement string) (string, error) {
	a, err := c.PrepareWith(statement, rq.options)
	if err != nil {
		return "", err
	}
	if a.Err != nil {
		return rq.withTrace(c, a)
	}
	columns := func(cs []cqlclient.Column) string {
		var out []string
		for _, c := range cs {
			out = append(out, fmt.Sprintf("%s.%s.%s %s", c.Keyspace, c.Table, c.Name, c.Type))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	text := fmt.Sprintf("binds %s key %v\nresult %s", columns(a.Prepared.Binds), a.Prepared.KeyIndexes,
		columns(a.Prepared.Result))
	trace, err := rq.trace(c, a)
	return text + trace, err
}
