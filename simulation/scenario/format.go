package scenario

import (
	"errors"
	"fmt"
	"strings"

	"cqld/coordinator"
	"cqld/row"
)

// FormatPage formats a page as key{s=static deleted [range)deleted row=value …}. The text is for comparison in files,
// so it must be the same for equal pages: parts are in the order of the page. A page that cannot be parsed is shown as
// its error. For example k1{s=x@1 a=y@2 b deleted@3}.
func FormatPage(page []byte) string {
	var b strings.Builder
	var r row.PageReader
	r.Reset(page)
	for r.NextPartition() {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		// A partition without content shows as key{}.
		fmt.Fprintf(&b, "%s{", r.Key.Bytes)
		var parts []string
		if r.Header.Deletion.Present() {
			parts = append(parts, fmt.Sprintf("deleted@%d", r.Header.Deletion.Timestamp))
		}
		for _, cell := range r.Header.Cells {
			parts = append(parts, "s"+cellText(&cell))
		}
		for _, t := range r.RangeTombstones {
			// The suffix \xff ends a bound that includes all rows with its prefix (row.After). It is not printed.
			parts = append(parts, fmt.Sprintf("[%s,%s)deleted@%d", t.Start, strings.TrimSuffix(string(t.End), "\xff"),
				t.Deletion.Timestamp))
		}
		var x row.Row
		for r.NextRow(&x) {
			s := string(x.Clustering)
			if x.Deletion.Present() {
				s += fmt.Sprintf(" deleted@%d", x.Deletion.Timestamp)
			}
			for _, cell := range x.Cells {
				s += cellText(&cell)
			}
			parts = append(parts, s)
		}
		b.WriteString(strings.Join(parts, " ") + "}")
	}
	if err := r.Err(); err != nil {
		return err.Error()
	}
	if b.Len() == 0 {
		b.WriteString("nothing")
	}
	// The page ended early: at a limit, or because of its size.
	if r.More() {
		b.WriteString(" more")
	}
	return b.String()
}

// cellText formats a cell as =value@timestamp.
func cellText(c *row.Cell) string {
	if c.Tombstone {
		return fmt.Sprintf("=deleted@%d", c.Timestamp)
	}
	return fmt.Sprintf("=%s@%d", c.Value, c.Timestamp)
}

// FormatError formats an error by the fields that a driver receives. Messages are not compared, since drivers do not
// depend on them. Errors of other types are shown with their text. For example: WriteTimeout QUORUM received=1
// blockFor=2 SIMPLE.
func FormatError(err error) string {
	var unavailable *coordinator.Unavailable
	var wt *coordinator.WriteTimeout
	var rt *coordinator.ReadTimeout
	var wf *coordinator.WriteFailure
	var rf *coordinator.ReadFailure
	switch {
	case err == nil:
		return "ok"
	case casErrorText(err) != "":
		return casErrorText(err)
	// Exactly the fields that the native protocol sends, so a change of any of them changes a scenario's output.
	case errors.As(err, &unavailable):
		return fmt.Sprintf("Unavailable %s required=%d alive=%d", unavailable.Consistency, unavailable.Required,
			unavailable.Alive)
	case errors.As(err, &wt):
		return fmt.Sprintf("WriteTimeout %s received=%d blockFor=%d %s", wt.Consistency, wt.Received, wt.BlockFor,
			wt.Type)
	case errors.As(err, &rt):
		return fmt.Sprintf("ReadTimeout %s received=%d blockFor=%d data=%t", rt.Consistency, rt.Received, rt.BlockFor,
			rt.DataPresent)
	case errors.As(err, &wf):
		return fmt.Sprintf("WriteFailure %s received=%d blockFor=%d failures=%v %s", wf.Consistency, wf.Received,
			wf.BlockFor, wf.Failures, wf.Type)
	case errors.As(err, &rf):
		return fmt.Sprintf("ReadFailure %s received=%d blockFor=%d failures=%v data=%t", rf.Consistency, rf.Received,
			rf.BlockFor, rf.Failures, rf.DataPresent)
	}
	return "error: " + err.Error()
}
