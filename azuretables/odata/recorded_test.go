package odata

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// recordedLines returns the lines of a file of recorded requests or responses of the service.
func recordedLines(t testing.TB, name string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/recorded/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// decodeAnswer parses an entity in a response, with its Timestamp, which a request would not contain.
func decodeAnswer(t *testing.T, object string) Entity {
	t.Helper()
	l := DefaultLimits()
	var e Entity
	keys, err := DecodeEntity([]byte(object), &l, &e)
	if err != nil || keys != HasBoth {
		t.Fatalf("%v, keys %b: %s", err, keys, object)
	}
	text := regexp.MustCompile(`"Timestamp":"([^"]*)"`).FindStringSubmatch(object)[1]
	ticks, ok := ParseDateTime([]byte(text))
	if !ok {
		t.Fatalf("Timestamp %q", text)
	}
	e.Timestamp = ticks
	return e
}

// withTypes supplies the types that responses without metadata lack, from the response with metadata.
func withTypes(object string) string {
	object = strings.Replace(object, `"Birthday":`, `"Birthday@odata.type":"Edm.DateTime","Birthday":`, 1)
	object = strings.Replace(object, `"birthday":`, `"birthday@odata.type":"Edm.DateTime","birthday":`, 1)
	object = strings.Replace(object, `"binary":`, `"binary@odata.type":"Edm.Binary","binary":`, 1)
	return strings.Replace(object, `"clsid":`, `"clsid@odata.type":"Edm.Guid","clsid":`, 1)
}

func TestResponsesMatchService(t *testing.T) {
	metadata := regexp.MustCompile(`^{"odata.metadata":"([^"]*)/\$metadata#([^/"]*)(/@Element)?"`)
	seen := 0
	for _, line := range recordedLines(t, "answers.txt") {
		c := Context{Account: "fake_table_account"}
		m := metadata.FindStringSubmatch(line)
		list := strings.Contains(line, `"value":[`)
		switch {
		case m == nil:
			c.Level = NoMetadata
			line := withTypes(line)
			e := decodeAnswer(t, line)
			c.Level = MinimalMetadata
			if got := string(c.AppendEntity(nil, &e)); !strings.HasSuffix(got, strings.TrimPrefix(line, "{")) {
				t.Errorf("with types:\n%s\n%s", got, line)
			}
			c.Level = NoMetadata
		case strings.Contains(line, `"odata.type"`):
			c.Level = FullMetadata
		}
		if m != nil {
			c.Root, c.Table = m[1], m[2]
		}
		var got []byte
		switch {
		case c.Table == "Tables":
			var names []string
			for _, name := range regexp.MustCompile(`"TableName":"(\w+)"`).FindAllStringSubmatch(line, -1) {
				names = append(names, name[1])
			}
			got = c.AppendTables(nil, names)
		case list:
			_, items, _ := strings.Cut(strings.TrimSuffix(line, "}]}"), `"value":[{`)
			var entities []Entity
			for item := range strings.SplitSeq(items, "},{") {
				entities = append(entities, decodeAnswer(t, "{"+item+"}"))
			}
			got = c.AppendEntities(nil, entities)
		default:
			object := line
			if m == nil {
				object = withTypes(line)
			}
			e := decodeAnswer(t, object)
			got = c.AppendEntity(nil, &e)
		}
		if string(got) != line {
			t.Errorf("answered\n%s\nthe service\n%s", got, line)
		}
		seen++
	}
	if seen < 10 {
		t.Errorf("only %d answers", seen)
	}
}

// TestInsertsAreUnderstoodAsTheServiceUnderstandsThem compares a recorded insert with its recorded response: both must
// decode to the same entity.
func TestInsertsAreUnderstoodAsTheServiceUnderstandsThem(t *testing.T) {
	answered := map[string]string{}
	for _, line := range recordedLines(t, "answers.txt") {
		if strings.Contains(line, `"value":[`) || !strings.Contains(line, "odata.metadata") {
			continue
		}
		e := decodeAnswer(t, line)
		answered[e.PartitionKey+"/"+e.RowKey] = string((&Context{Level: MinimalMetadata}).appendProperties(nil, &e))
	}
	l := DefaultLimits()
	both := 0
	for _, line := range recordedLines(t, "inserts.txt") {
		var e Entity
		if _, err := DecodeEntity([]byte(line), &l, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		want, ok := answered[e.PartitionKey+"/"+e.RowKey]
		if !ok {
			continue
		}
		both++
		if got := string((&Context{Level: MinimalMetadata}).appendProperties(nil, &e)); got != want {
			t.Errorf("understood\n%s\nthe service\n%s", got, want)
		}
	}
	if both < 3 {
		t.Errorf("only %d inserts have an answer", both)
	}
}

func TestErrorBodiesAreThoseOfTheService(t *testing.T) {
	parts := regexp.MustCompile(`^{"odata.error":{"code":"(\w+)","message":{"lang":"en-US","value":"(.*)\\nRequestId:(.*)\\nTime:(.*)"}}}$`)
	for _, line := range recordedLines(t, "errors.txt") {
		m := parts.FindStringSubmatch(line)
		now, err := time.Parse(time.RFC3339Nano, m[4])
		if err != nil {
			t.Fatal(err)
		}
		e := Of(Code(m[1]))
		if e.Message != m[2] {
			t.Errorf("%s is %q, the service's %q", e.Code, e.Message, m[2])
		}
		if got := string(e.AppendJSON(nil, m[3], now)); got != line {
			t.Errorf("answered\n%s\nthe service\n%s", got, line)
		}
	}
}

func crlf(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) }

func recordedFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/recorded/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBatchesOfClientsAreUnderstood(t *testing.T) {
	l := DefaultLimits()
	for _, ends := range []func([]byte) []byte{crlf, bytes.Clone} {
		body := ends(recordedFile(t, "batch1.request"))
		b, err := ParseBatch(body, "multipart/mixed; boundary=batch_cf1f876a-6b0e-4b98-8084-8fc7426d501b", &l)
		if err != nil || len(b.Requests) != 1 || !b.Changeset {
			t.Fatalf("%v %+v", err, b)
		}
		r := &b.Requests[0]
		if r.Method != "PATCH" || r.Path.Resource != OneEntity || r.Path.Table != "uttable42d5157d" ||
			r.Path.PartitionKey != "pk42d5157d" || r.Path.RowKey != "rk42d5157d" {
			t.Errorf("%+v", r)
		}
		if tag := r.Field("if-match"); tag != `W/"datetime'2012-06-15T22%3A51%3A44.9662825Z'"` {
			t.Errorf("If-Match %q", tag)
		}
		var e Entity
		if _, err := DecodeEntity(r.Body, &l, &e); err != nil || len(e.Properties) != 4 {
			t.Errorf("%v %+v", err, e)
		}
	}
}

func TestBatchRepliesAreThoseOfTheService(t *testing.T) {
	headers := regexp.MustCompile(`(?m)^([\w-]+): (.*)$`)
	for _, name := range []string{"batch0.reply", "batch1.reply", "batch2.reply", "batch3.reply"} {
		want := crlf(recordedFile(t, name))
		lines := strings.Split(string(want), "\r\n")
		batch := strings.TrimPrefix(lines[0], "--")
		_, changeset, _ := strings.Cut(lines[1], "boundary=")
		var replies []Reply
		parts := strings.Split(string(want), "--"+changeset+"\r\n")[1:]
		for _, part := range parts {
			_, part, _ = strings.Cut(part, "HTTP/1.1 ")
			head, body, _ := strings.Cut(part, "\r\n\r\n")
			body, _, _ = strings.Cut(body, "\r\n--"+changeset+"--")
			r := Reply{Body: []byte(strings.TrimSpace(body))}
			for _, m := range headers.FindAllStringSubmatch(strings.ReplaceAll(head, "\r", ""), -1) {
				switch m[1] {
				case "Cache-Control":
					r.NoCache = true
				case "Preference-Applied":
					r.PreferenceApplied = m[2]
				case "DataServiceVersion":
					r.Version = strings.TrimSuffix(m[2], ";")
				case "Content-Type":
					r.ContentType = m[2]
				case "Location":
					r.Location = m[2]
				case "DataServiceId":
					r.DataServiceID = m[2]
				case "ETag":
					r.ETag = m[2]
				}
			}
			for _, status := range []int{200, 201, 202, 204, 400, 404, 409, 412} {
				if phrase, _, _ := strings.Cut(head, "\r\n"); strings.HasPrefix(phrase, reasonLine(status)) {
					r.Status = status
				}
			}
			replies = append(replies, r)
		}
		if got := AppendReplies(nil, batch, changeset, true, replies); !bytes.Equal(got, want) {
			t.Errorf("%s: answered\n%q\nthe service\n%q", name, got, want)
		}
	}
}

func reasonLine(status int) string {
	return string(append([]byte{byte('0' + status/100), byte('0' + status/10%10), byte('0' + status%10), ' '},
		reason(status)...))
}
