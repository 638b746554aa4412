package azuretables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/internal/memory"
)

// TestLowerErrorsMapToServiceErrors checks that every error of the lower packages has a status, a code, and a delay if
// the client should retry.
func TestLowerErrorsMapToServiceErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  bool
	}{
		{&coordinator.Unavailable{}, 503, "ServerBusy", true},
		{&coordinator.Overloaded{}, 503, "ServerBusy", true},
		{&NotServing{Reason: "clock"}, 503, "ServerBusy", true},
		{memory.ErrExhausted, 503, "ServerBusy", true},
		{fmt.Errorf("more: %w", &memory.TooLarge{Bytes: 5, Max: 4}), 400, "InvalidInput", false},
		{&coordinator.WriteTimeout{}, 500, "OperationTimedOut", false},
		{&coordinator.ReadTimeout{}, 500, "OperationTimedOut", false},
		{&coordinator.CASUnknown{}, 500, "OperationTimedOut", false},
		{context.DeadlineExceeded, 500, "OperationTimedOut", false},
		{&coordinator.WriteFailure{}, 500, "InternalError", false},
		{&coordinator.ReadFailure{}, 500, "InternalError", false},
		{errors.New("unknown internal error"), 500, "InternalError", false},
		{fmt.Errorf("more: %w", odata.Of(odata.EntityTooLarge)), 400, "EntityTooLarge", false},
		{&entity.Failed{Index: 0, Err: &coordinator.Unavailable{}}, 503, "ServerBusy", true},
	} {
		b := newBench(t, nil)
		b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
		b.memory.fail = c.err
		batch := "POST /devstoreaccount1/$batch\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: " +
			"multipart/mixed; boundary=c\n\n" +
			"--c\nContent-Type: application/http\n\nPUT /races(PartitionKey='p',RowKey='r') HTTP/1.1\nContent-Type: " +
			"application/json\n\n{}\n--c--\n--b--\n"
		for _, request := range []string{
			"PUT /devstoreaccount1/races(PartitionKey='p',RowKey='r')\nContent-Type: application/json\n\n{}",
			"GET /devstoreaccount1/races(PartitionKey='p',RowKey='r')", "GET /devstoreaccount1/races()", batch,
		} {
			resp, body := b.send(request)
			if c.status < 500 && strings.HasPrefix(request, "POST") {
				continue // reported within the batch: testdata/requests/batch.txt
			}
			if resp.StatusCode != c.status || !strings.Contains(body, `"code":"`+c.code+`"`) {
				t.Errorf("%v: %d, %s", c.err, resp.StatusCode, body)
			}
			if (resp.Header.Get("Retry-After") != "") != c.retry {
				t.Errorf("%v: Retry-After %q", c.err, resp.Header.Get("Retry-After"))
			}
			if strings.Contains(body, "unknown internal") {
				t.Errorf("the response exposes an internal error: %s", body)
			}
		}
	}
}
