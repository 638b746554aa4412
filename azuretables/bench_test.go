package azuretables

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/request"
)

// insertBody is an entity of a dozen properties, like the recorded ones.
const insertBody = `{"PartitionKey": "pkd3851397", "PartitionKey@odata.type": "Edm.String", "RowKey": "rkd3851397", "RowKey@odata.type": "Edm.String", "age": 39, "sex": "male", "sex@odata.type": "Edm.String", "married": true, "deceased": false, "ratio": 3.1, "ratio@odata.type": "Edm.Double", "evenratio": 3.0, "evenratio@odata.type": "Edm.Double", "double": 5, "double@odata.type": "Edm.Double", "large": 933311100, "Birthday": "1973-10-04T00:00:00.000000Z", "Birthday@odata.type": "Edm.DateTime", "birthday": "1970-10-04T00:00:00.000000Z", "birthday@odata.type": "Edm.DateTime", "binary": "YmluYXJ5", "binary@odata.type": "Edm.Binary", "other": 20, "clsid": "c9da6455-213d-42c9-9a79-3e9149a57833", "clsid@odata.type": "Edm.Guid"}`

// signed returns a function that fills in a signed request.
func (b *bench) signed(method, target, body string) func(*httpRequest) {
	contentType := ""
	if body != "" {
		contentType = "application/json;odata=nometadata"
	}
	date, authorization := b.date(), b.sign(DevelopmentAccount, method, target, contentType)
	return func(r *httpRequest) {
		*r = httpRequest{method: method, path: target, host: "127.0.0.1:10002",
			remote: netip.MustParseAddrPort("127.0.0.1:1")}
		if body != "" {
			r.body = []byte(body)
		}
		r.header = header{accept: "application/json;odata=minimalmetadata", version: "2019-02-02", msDate: date,
			contentType: contentType, authorization: authorization,
			clientRequestID: "960651c6-4147-11eb-adb1-58961df361d1"}
	}
}

func benchmark(t *testing.B, method, target, body string, status int) {
	b := newBench(t, nil)
	b.send("POST /devstoreaccount1/Tables\nContent-Type: application/json\n\n{\"TableName\":\"races\"}")
	b.send("PUT /devstoreaccount1/races(PartitionKey='p',RowKey='r')\nContent-Type: application/json\n\n" +
		`{"age":39,"sex":"male","large":933311100}`)
	ask := b.asking(b.signed(method, target, body))
	t.ReportAllocs()
	for t.Loop() {
		if resp := ask(); resp.status != status {
			t.Fatal(strconv.Itoa(resp.status), string(resp.body))
		}
	}
}

// asking returns a function that sends a request without a transport. The response is valid until the next call.
func (b *bench) asking(make func(*httpRequest)) func() *response {
	var req httpRequest
	var resp response
	return func() *response {
		make(&req)
		resp.reset()
		b.server.handle(context.Background(), &req, &resp)
		return &resp
	}
}

// TestAllocationsOfARequest bounds the server's own allocations, with a service that does nothing and without a
// transport.
func TestAllocationsOfARequest(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations cannot be counted under the race detector")
	}
	for _, c := range []struct {
		method, target, body string
		most                 float64
	}{
		{"GET", "/devstoreaccount1/races(PartitionKey='p',RowKey='r')", "", 8},
		{"PUT", "/devstoreaccount1/races(PartitionKey='pkd3851397',RowKey='rkd3851397')", insertBody, 12},
		{"POST", "/devstoreaccount1/races", insertBody, 16},
	} {
		b := newIdleBench(t)
		ask := b.asking(b.signed(c.method, c.target, c.body))
		if n := testing.AllocsPerRun(200, func() {
			if resp := ask(); resp.status >= 300 {
				t.Fatalf("%d %s", resp.status, resp.body)
			}
		}); n > c.most {
			t.Errorf("%s: %v allocations, %v at most", c.method, n, c.most)
		}
	}
	b := newIdleBench(t)
	ask := b.asking(b.signedBatch(batchOfHundred()))
	if n := testing.AllocsPerRun(20, func() { ask() }); n > 250 { // two for each operation: its headers and its names
		t.Errorf("a batch of a hundred inserts: %v allocations", n)
	}
}

func newIdleBench(t testing.TB) *bench {
	b := newBenchWithoutListener(t)
	b.server.o.Service = idleService{b.memory}
	return b
}

// idleService has one entity and accepts every change.
type idleService struct{ *inMemory }

func (idleService) Apply(_ *request.Request, _, _ string, ops []entity.Operation) ([]int64, error) {
	return slices.Repeat([]int64{16220452870454448}, len(ops)), nil
}

func (idleService) Get(*request.Request, string, string, string, string, []string) (*odata.Entity, error) {
	return &odata.Entity{PartitionKey: "p", RowKey: "r", Timestamp: 16220452870454448}, nil
}

func BenchmarkUpsert(t *testing.B) {
	benchmark(t, "PUT", "/devstoreaccount1/races(PartitionKey='pkd3851397',RowKey='rkd3851397')", insertBody, 204)
}

// batchOfHundred returns a changeset of a hundred inserts of entities of 1 KB, as clients send it.
func batchOfHundred() []byte {
	b := []byte("--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n")
	payload := strings.Repeat("x", 900)
	for i := range 100 {
		e := fmt.Sprintf(`{"PartitionKey":"p","RowKey":"r%08d","Bib":%d,"Finished":true,"Name":"John","Payload":"%s"}`,
			i, i, payload)
		b = fmt.Appendf(b, "--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: "+
			"binary\r\n\r\n"+
			"POST http://127.0.0.1:10002/devstoreaccount1/races HTTP/1.1\r\nAccept: "+
			"application/json;odata=nometadata\r\n"+
			"Prefer: return-no-content\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s\r\n", len(e),
			e)
	}
	return append(b, "--changeset_c--\r\n--batch_b--\r\n"...)
}

func (b *bench) signedBatch(body []byte) func(*httpRequest) {
	const target, contentType = "/devstoreaccount1/$batch", "multipart/mixed; boundary=batch_b"
	make := b.signed("POST", target, "")
	authorization := b.sign(DevelopmentAccount, "POST", target, contentType)
	return func(r *httpRequest) {
		buffer := r.body[:0]
		make(r)
		r.header.contentType, r.header.authorization, r.body = contentType, authorization, append(buffer, body...)
	}
}

func BenchmarkBatch(t *testing.B) {
	b := newIdleBench(t)
	ask := b.asking(b.signedBatch(batchOfHundred()))
	t.ReportAllocs()
	for t.Loop() {
		resp := ask()
		if resp.status != 202 || bytes.Count(resp.body, []byte("HTTP/1.1 204 ")) != 100 {
			t.Fatalf("%d %s", resp.status, resp.body)
		}
	}
}

func BenchmarkGet(t *testing.B) {
	benchmark(t, "GET", "/devstoreaccount1/races(PartitionKey='p',RowKey='r')", "", 200)
}
