package control

import (
	"encoding/json"
	"testing"
)

// TestObservationsShowNoSecrets formats arguments for the audit log: names of secrets are redacted, at every depth and
// whatever the type of their value is. Tokens of the ring are shown.
func TestObservationsShowNoSecrets(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{``, "op"},
		{`{}`, "op"},
		{`{`, "op (invalid arguments)"},
		{`{"tokens":[-9223372036854775808,1],"force":true}`,
			`op {"force":true,"tokens":[-9223372036854775808,1]}`},
		{`{"start_token":"-42","end_token":42}`, `op {"end_token":42,"start_token":"*******"}`},
		{`{"token":"abc"}`, `op {"token":"*******"}`},
		{`{"tokens":[1,"abc"]}`, `op {"tokens":"*******"}`},
		{`{"tokens":{"a":1}}`, `op {"tokens":"*******"}`},
		{`{"auth_token":1}`, `op {"auth_token":"*******"}`},
		{`{"secret_token":1}`, `op {"secret_token":"*******"}`},
		{`{"password":1234}`, `op {"password":"*******"}`},
		{`{"a":[{"Hash":[1]}],"key":"k","api_key":"k","key1":"k","tables_key2":"k"}`,
			`op {"a":[{"Hash":"*******"}],"api_key":"*******","key":"*******","key1":"*******",` +
				`"tables_key2":"*******"}`},
		{`{"keyspace":"k"}`, `op {"keyspace":"k"}`},
	} {
		if got := (&Observation{Name: "op", Args: json.RawMessage(c.args)}).String(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.args, got, c.want)
		}
	}
}
