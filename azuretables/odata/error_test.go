package odata

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestEveryCodeHasAMessageAndAStatus checks that every code in error.go has a message, an error status, and bodies that
// JSON and XML parsers accept.
func TestEveryCodeHasAMessageAndAStatus(t *testing.T) {
	source, err := os.ReadFile("error.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`Code = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 40 {
		t.Fatalf("only %d codes", len(codes))
	}
	for _, m := range codes {
		e := Of(Code(m[1]))
		if e.Message == "" || e.Code.Status() < 400 || e.Code.Status() > 599 {
			t.Errorf("%s: %d %q", e.Code, e.Code.Status(), e.Message)
		}
		if e.Code.Status() == 500 && e.Code != InternalError && e.Code != OperationTimedOut {
			t.Errorf("%s has no status", e.Code)
		}
		if reason(e.Code.Status()) == reason(500) && e.Code.Status() != 500 {
			t.Errorf("%d has no phrase", e.Code.Status())
		}
	}
}

func TestErrorBodiesAreWellFormed(t *testing.T) {
	e := &Error{Code: InvalidInput, Message: "a<b>&\"c\" é \x01"}
	var j struct {
		Error struct {
			Code    string
			Message struct{ Lang, Value string }
		} `json:"odata.error"`
	}
	body := e.AppendJSON(nil, "r", time.Now())
	if err := json.Unmarshal(body, &j); err != nil || j.Error.Code != "InvalidInput" ||
		!strings.HasPrefix(j.Error.Message.Value, e.Message) {
		t.Errorf("%v: %s", err, body)
	}
	for _, body := range [][]byte{e.AppendXML(nil, "r", time.Now()), e.AppendODataXML(nil, "r", time.Now())} {
		var x struct {
			Code    string `xml:",any"`
			Message string `xml:"Message"`
		}
		if err := xml.Unmarshal(body[strings.IndexByte(string(body), '<'):], &x); err != nil {
			t.Errorf("%v: %s", err, body)
		}
	}
}

func TestErrorsSayWhichOperation(t *testing.T) {
	err := error(&RequestError{Index: 7, Err: Of(InvalidInput)})
	var e *Error
	if !errors.As(err, &e) || e.Code != InvalidInput ||
		err.Error() != "InvalidInput: 7:One of the request inputs is not valid." {
		t.Errorf("%v", err)
	}
	if HasBoth.Need() != nil || !errors.As(HasRowKey.Need(), &e) || e.Code != PropertiesNeedValue {
		t.Errorf("%v", e)
	}
}
