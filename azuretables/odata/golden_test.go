package odata

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestGolden runs the scenarios of testdata/golden: the result or the error of each input. -rewrite updates them.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			l := DefaultLimits()
			switch d.Cmd {
			case "decode":
				return goldenDecode(d, &l)
			case "encode":
				return goldenEncode(t, d, &l)
			case "filter":
				return eachLine(d.Input, func(line string) string { return goldenFilter(line, &l) })
			case "match":
				return goldenMatch(t, d, &l)
			case "path":
				return eachLine(d.Input, func(line string) string {
					return goldenPath(ParsePath(line,
						hostAccount(t, d)))
				})
			case "batch-url":
				return eachLine(d.Input, func(line string) string {
					p, query, err := ParseBatchURL(line)
					if query != "" {
						query = " ?" + query
					}
					return goldenPath(p, err) + query
				})
			case "batch":
				return goldenBatch(t, d, &l)
			case "etag":
				return eachLine(d.Input, goldenETag)
			case "table-name":
				return eachLine(d.Input, func(line string) string { return outcome("ok", CheckTableName(line)) })
			case "select":
				return eachLine(d.Input, func(line string) string {
					names, err := ParseSelect(line, &l)
					return outcome(fmt.Sprintf("%q", names), err)
				})
			case "error":
				return eachLine(d.Input, func(line string) string {
					e, now := Of(Code(line)), time.Date(2021, 5, 26, 15, 48, 6, 657248600, time.UTC)
					return strconv.Itoa(e.Code.Status()) + "\n" + string(e.AppendJSON(nil, "r", now)) + "\n" +
						string(e.AppendXML(nil, "r", now)) + "\n" + string(e.AppendODataXML(nil, "r", now))
				})
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func hostAccount(t *testing.T, d *datadriven.TestData) string {
	var account string
	d.MaybeScanArgs(t, "host", &account)
	return account
}

// eachLine returns the answer for each line of the input; a leading | is not part of a line, and preserves an empty
// one.
func eachLine(input string, answer func(string) string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(input, "\n") {
		b.WriteString(answer(strings.TrimPrefix(line, "|")) + "\n")
	}
	return b.String()
}

func outcome(s string, err error) string {
	var request *RequestError
	var e *Error
	switch {
	case errors.As(err, &request):
		return "refused: " + request.Error()
	case errors.As(err, &e):
		return "refused: " + e.Error()
	case err != nil:
		return "NO SERVICE ERROR: " + err.Error()
	}
	return s
}

func goldenDecode(d *datadriven.TestData, l *Limits) string {
	// <a*300> stands for a long text.
	body := d.Input
	for {
		before, rest, ok := strings.Cut(body, "<*")
		if !ok {
			break
		}
		times, after, _ := strings.Cut(rest, ">")
		n, unit, _ := strings.Cut(times, " ")
		count, err := strconv.Atoi(n)
		if err != nil {
			return err.Error()
		}
		body = before + strings.Repeat(unit, count) + after
	}
	var e Entity
	keys, err := DecodeEntity([]byte(body), l, &e)
	if err != nil {
		return outcome("", err) + "\n"
	}
	return showEntity(keys, &e)
}

func showEntity(keys Keys, e *Entity) string {
	var b strings.Builder
	if keys&HasPartitionKey != 0 {
		fmt.Fprintf(&b, "PartitionKey %q\n", short(e.PartitionKey))
	}
	if keys&HasRowKey != 0 {
		fmt.Fprintf(&b, "RowKey %q\n", short(e.RowKey))
	}
	if keys&HasTypedKey != 0 {
		b.WriteString("a key is not a string\n")
	}
	for i := range e.Properties {
		p := &e.Properties[i]
		fmt.Fprintf(&b, "%s %s %s\n", short(p.Name), p.Value.Type, short(string(p.Value.AppendLiteral(nil))))
	}
	fmt.Fprintf(&b, "%d bytes\n", e.EntityBytes())
	return b.String()
}

func short(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:40], "") + "…(" + strconv.Itoa(len(s)) + ")"
	}
	return s
}

func goldenEncode(t *testing.T, d *datadriven.TestData, l *Limits) string {
	c := Context{Root: "http://127.0.0.1:10002/acc", Account: "acc", Table: "tab"}
	level := "minimal"
	d.MaybeScanArgs(t, "level", &level)
	c.Level = map[string]Metadata{"minimal": MinimalMetadata, "full": FullMetadata, "no": NoMetadata}[level]
	var err error
	if d.HasArg("select") {
		d.ScanArgs(t, "select", &c.SelectText)
		c.SelectText = strings.ReplaceAll(c.SelectText, "+", " ")
		if c.Select, err = ParseSelect(strings.ReplaceAll(c.SelectText, ";", ","), l); err != nil {
			return outcome("", err) + "\n"
		}
	}
	if d.HasArg("tables") {
		return string(c.AppendTables(nil, strings.Fields(d.Input))) + "\n" +
			string(c.AppendTable(nil, strings.Fields(d.Input)[0])) + "\n"
	}
	e := Entity{Timestamp: 16220440870454448}
	if _, err := DecodeEntity([]byte(d.Input), l, &e); err != nil {
		return outcome("", err) + "\n"
	}
	e.Timestamp = 16220440870454440
	return string(c.AppendEntity(nil, &e)) + "\n"
}

func goldenFilter(line string, l *Limits) string {
	x, err := ParseFilter(line, l)
	return outcome(string(AppendFilter(nil, x)), err)
}

// goldenMatch shows for each filter whether it matches the entity in the first line.
func goldenMatch(t *testing.T, d *datadriven.TestData, l *Limits) string {
	object, filters, _ := strings.Cut(d.Input, "\n")
	var e Entity
	if _, err := DecodeEntity([]byte(object), l, &e); err != nil {
		t.Fatal(err)
	}
	return eachLine(filters, func(line string) string {
		x, err := ParseFilter(line, l)
		return outcome(strconv.FormatBool(Matches(x, &e)), err)
	})
}

func goldenPath(p Path, err error) string {
	name := [...]string{"nothing", "service", "tables", "table", "entities", "entity", "partition", "incomplete",
		"count", "batch", "metadata", "below", "tables-below"}
	s := name[p.Resource]
	for _, f := range []struct{ what, value string }{{"account", p.Account}, {"table", p.Table}, {"p", p.PartitionKey},
		{"r", p.RowKey}} {
		if f.value != "" {
			s += fmt.Sprintf(" %s=%q", f.what, f.value)
		}
	}
	return outcome(s, err)
}

func goldenBatch(t *testing.T, d *datadriven.TestData, l *Limits) string {
	contentType := "multipart/mixed; boundary=b"
	var boundary string
	if d.MaybeScanArgs(t, "boundary", &boundary) {
		contentType = "multipart/mixed; boundary=" + boundary
	}
	l.BatchOperations = 3
	batch, err := ParseBatch([]byte(strings.ReplaceAll(d.Input, "\\", "")), contentType, l)
	if err != nil {
		return outcome("", err) + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "changeset %v\n", batch.Changeset)
	for i := range batch.Requests {
		r := &batch.Requests[i]
		fmt.Fprintf(&b, "%s %s ?%s fields %d body %q\n", r.Method, goldenPath(r.Path, nil), r.Query, len(r.Fields),
			r.Body)
	}
	return b.String()
}

func goldenETag(line string) string {
	ticks, any, err := ParseETag(line)
	if any {
		return "any"
	}
	return outcome(string(AppendDateTime(nil, ticks)), err)
}
